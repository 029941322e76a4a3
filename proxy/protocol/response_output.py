"""What a response's events have told so far: the fold of a stream over its own events.

The stream decides by this alone what comes next, so whoever has the events has the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.protocol.response_object import Json

Payload = Mapping[str, Any]


@dataclass(slots=True)
class Slot:
    """One output item. `item` is as it was added, then as it was done; `pieces` are its deltas."""

    index: int
    item: Json
    pieces: list[str] = field(default_factory=list)
    annotations: list[Json] = field(default_factory=list)

    @property
    def id(self) -> str:
        return str(self.item["id"])

    @property
    def kind(self) -> str:
        return str(self.item["type"])

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class Output:
    """`count` events were told, and `response` by the last of those that carry the whole object."""

    count: int = 0
    begun: bool = False
    over: bool = False
    response: Json = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    open_step: Slot | None = None
    open_message: Slot | None = None

    def apply(self, payload: Payload) -> None:
        self.count += 1
        name = payload["type"].removeprefix("response.")
        if "response" in payload:
            self.response = payload["response"]
            self.begun = self.begun or name == "in_progress"
            self.over = name in ("completed", "failed", "incomplete")
        elif note := _NOTES.get(name):
            note(self, payload)

    @property
    def items(self) -> list[Json]:
        """The items as they were last told."""
        return [slot.item for slot in self.slots]

    @property
    def text(self) -> str:
        return "".join(slot.text for slot in self.slots if slot.kind == "message")

    @property
    def says_something(self) -> bool:
        return any(slot.kind in ("message", "function_call") for slot in self.slots)

    def sizes(self) -> tuple[int, int]:
        """Characters that were said to the client, and those of the reasoning."""
        said = thought = 0
        for slot in self.slots:
            size = sum(map(len, slot.pieces))
            if slot.kind == "reasoning":
                thought += size
            else:
                said += size
        return said, thought

    def add(self, payload: Payload) -> None:
        slot = Slot(payload["output_index"], payload["item"])
        self.slots.append(slot)
        if slot.kind == "message":
            self.open_message = slot
        elif slot.kind != "function_call":
            self.open_step = slot

    def extend(self, payload: Payload) -> None:
        self.slots[payload["output_index"]].pieces.append(payload["delta"])

    def annotate(self, payload: Payload) -> None:
        self.slots[payload["output_index"]].annotations.append(payload["annotation"])

    def end(self, payload: Payload) -> None:
        slot = self.slots[payload["output_index"]]
        slot.item = payload["item"]
        if slot is self.open_message:
            self.open_message = None
        elif slot is self.open_step:
            self.open_step = None


_NOTES: dict[str, Callable[[Output, Payload], None]] = {
    "output_item.added": Output.add,
    "output_item.done": Output.end,
    "output_text.delta": Output.extend,
    "reasoning_summary_text.delta": Output.extend,
    "function_call_arguments.delta": Output.extend,
    "output_text.annotation.added": Output.annotate,
}
