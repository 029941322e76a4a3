"""What a marker is: its sentence, the values that it takes, the APIs that it bends."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal

Api = Literal["agent", "sonar", "web"]
Phase = Literal["submit", "late", "poll", "cancel"]
BOTH: tuple[Api, ...] = ("agent", "sonar")
ALL: tuple[Api, ...] = ("agent", "sonar", "web")
WEB: tuple[Api, ...] = ("web",)

Check = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Marker:
    """One behaviour. `value` checks the text after `=`; `default` is used without one (None: required)."""

    meaning: str
    value: Check | None = None
    default: str | None = ""
    apis: tuple[Api, ...] = BOTH

    def binds(self, api: Api) -> bool:
        """Whether a question may bind the marker to this API by name: the two paid APIs share theirs."""
        return api in self.apis or (api != "web" and set(self.apis) != set(WEB))


def count(text: str) -> bool:
    return text == "" or (text.isascii() and text.isdigit())


def seconds(text: str) -> bool:
    try:
        return 0 <= Decimal(text) <= 1_000_000
    except InvalidOperation:
        return False


def money(text: str) -> bool:
    return re.fullmatch(r"\d{1,9}(\.\d{1,30})?", text, re.ASCII) is not None


def word(text: str) -> bool:
    return re.fullmatch(r"\w{1,40}", text) is not None


def wait(text: str) -> bool:
    return text == "date" or seconds(text)


def one_of(*words: str) -> Check:
    return lambda text: text in words
