"""Named checks of what a server says: the frame that every profile fills (openai-compat §6).

    suite = Suite[ChatBody]()

    @suite.check("C1", "id starts with chatcmpl-")
    def _(chat: ChatBody) -> Fault:
        return unless(text(chat.body["id"]).startswith("chatcmpl-"))

    suite.run(ChatBody(body))     one Result per check, in order

A check looks at what may be anything. What it stumbles over is a fault of the body, not of the check.
Standard library only: doors, commands and tests use the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Severity = Literal["FAIL", "WARN"]
Verdict = Literal["PASS", "FAIL", "WARN"]
Profile = Literal["strict", "agent"]
"""`strict` is OpenAI's own form, `agent` the research agent API's, which says some things its own way."""
Fault = str | None
"""What is wrong, in a few words; None for nothing."""
Subject = TypeVar("Subject")
WRONG = "it is not so"
_STUMBLES = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class NotThere(Exception):
    """Raised by a check for which there is nothing to look at: it has no result."""


@dataclass(frozen=True, slots=True)
class Result:
    """How one check came out. `group` is where a page shows it."""

    id: str
    title: str
    verdict: Verdict
    detail: str = ""
    group: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict == "FAIL"


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    id: str
    title: str
    severity: Severity
    group: str
    look: Callable[[Subject], Fault]

    def run(self, subject: Subject) -> Result | None:
        """None when there is nothing to look at."""
        try:
            fault = self.look(subject)
        except NotThere:
            return None
        except _STUMBLES as error:
            fault = f"what it looks at is missing or of another type ({type(error).__name__})"
        verdict: Verdict = "PASS" if fault is None else self.severity
        return Result(self.id, self.title, verdict, fault or "", self.group)


class Suite(Generic[Subject]):
    """The checks of one profile, in their order."""

    def __init__(self) -> None:
        self.checks: list[Check[Subject]] = []

    def check(
        self, id: str, title: str, severity: Severity = "FAIL", group: str = ""
    ) -> Callable[[Callable[[Subject], Fault]], Callable[[Subject], Fault]]:
        def add(look: Callable[[Subject], Fault]) -> Callable[[Subject], Fault]:
            self.checks.append(Check(id, title, severity, group, look))
            return look

        return add

    def run(self, subject: Subject) -> tuple[Result, ...]:
        results = (check.run(subject) for check in self.checks)
        return tuple(result for result in results if result is not None)


def unless(holds: object, fault: str = WRONG) -> Fault:
    return None if holds else fault


def first(faults: Iterable[Fault]) -> Fault:
    return next((fault for fault in faults if fault is not None), None)


def faults(results: Iterable[Result]) -> list[str]:
    """What failed, one line each."""
    return [f"{one.id} {one.title}: {one.detail}" for one in results if one.failed]


def needed(value: object) -> None:
    """A check that looks at `value` has nothing to look at when it is None."""
    if value is None:
        raise NotThere


# What a body may hold. A TypeError becomes the fault of the check that looked.


def obj(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def arr(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("no array")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no string")
    return value


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("no integer")
    return value
