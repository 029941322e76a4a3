"""The input of a Responses request: items in, normalised items and messages out (proxy-contract §8.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.protocol.chat_messages import ChatMessage
from proxy.protocol.response_object import Json


@dataclass(frozen=True, slots=True)
class InputItem:
    """One item of the input. `data` is how it is stored; without an `id` when its sender gave none.

    `message` is what it says in a plain prompt; None for what says nothing there.
    """

    data: Json
    message: ChatMessage | None = None


def messages_of(items: Iterable[Json]) -> tuple[ChatMessage, ...]:
    """What stored items, of input and output alike, say in the prompt of a later response."""
    raise NotImplementedError
