"""A run's rows → the events of a Responses stream (SPEC 4.2, 10.14, openai-compat §§3.4-3.5).

    created, queued                     from what never changes of a run
    in_progress                         as it is first handed to an upstream
    one reasoning item                  a line, or several, for each row of the log that says something
    one message                         the report, cut into equal pieces, and its citations
    completed | incomplete | failed     the run as it ended; a cancelled one ends as `incomplete`

Events are a function of rows that are written already, in their order, and of nothing else: every
process makes the same bytes of them, at any time. That is why they show nothing that may still
change, and why the sources stand in `sonde` and in the annotations: an event can carry no item of a
type that OpenAI's clients do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from portal.wire.ids import response_id
from proxy.protocol.response_object import item_id, reasoning_item, summary_part, text_part
from proxy.protocol.responses_stream import Event
from research.protocol.answer import RunView, build_response
from research.protocol.backend_names import backend_name
from research.protocol.states import TERMINAL

Json = dict[str, Any]
Data = Mapping[str, Any]

PIECE = 400
"""Characters of a report in one delta."""
_encode = msgspec.json.Encoder().encode
_QUIET = frozenset({"queued", "admission_refused", *(state.value for state in TERMINAL)})
"""Rows that the stream's own beginning and end tell."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row of a run's log."""

    seq: int
    kind: str
    data: Data


class RunStream:
    """Makes the events of one run, numbered from 0. `run` may be read at any time of its life."""

    def __init__(self, run: RunView) -> None:
        self._run = RunView(
            id=run.id,
            status="queued",
            created_at=run.created_at,
            preset=run.preset,
            metadata=run.metadata,
            instructions=run.instructions,
            previous_id=run.previous_id,
        )
        self._reasoning = item_id("rs_", response_id(run.id), "run")
        self._count = 0
        self._told: list[str] = []
        self._begun = False
        self.over = False

    def open(self) -> list[Event]:
        return [self._lifecycle(name, self._early("queued")) for name in ("created", "queued")]

    def read(self, rows: Iterable[LogRow]) -> list[Event]:
        """What the next rows of the log say."""
        return [event for row in rows for event in self._row(row)]

    def end(self, run: RunView) -> list[Event]:
        """The rest, once the run has ended and all of its log was read: `run` as it was at its end."""
        whole = build_response(run)
        messages = [item for item in whole["output"] if item["type"] == "message"]
        thoughts = [reasoning_item(self._reasoning, self._thinking)] if self._told else []
        events = [*self._end_reasoning(), *(event for item in messages for event in self._message(item))]
        name = "incomplete" if run.status == "cancelled" else run.status
        self.over = True
        return [*events, self._lifecycle(name, whole | {"output": [*thoughts, *messages]})]

    @property
    def _thinking(self) -> str:
        return "\n".join(self._told)

    def _row(self, row: LogRow) -> list[Event]:
        if row.kind in _QUIET:
            return []
        events = []
        if not self._begun:
            if row.kind != "submitting":
                return []
            self._begun = True
            events.append(self._lifecycle("in_progress", self._early("in_progress")))
        lines = _lines(row)
        return [*events, *self._think("\n".join(lines))] if lines else events

    def _think(self, text: str) -> list[Event]:
        events = [] if self._told else self._begin_reasoning()
        delta = f"\n{text}" if self._told else text
        self._told.append(text)
        return [*events, self._emit("reasoning_summary_text.delta", self._summary(delta=delta))]

    def _begin_reasoning(self) -> list[Event]:
        return [
            self._emit("output_item.added", {"output_index": 0, "item": reasoning_item(self._reasoning)}),
            self._emit("reasoning_summary_part.added", self._summary(part=summary_part())),
        ]

    def _end_reasoning(self) -> list[Event]:
        if not self._told:
            return []
        text = self._thinking
        return [
            self._emit("reasoning_summary_text.done", self._summary(text=text)),
            self._emit("reasoning_summary_part.done", self._summary(part=summary_part(text))),
            self._emit(
                "output_item.done", {"output_index": 0, "item": reasoning_item(self._reasoning, text)}
            ),
        ]

    def _message(self, item: Json) -> list[Event]:
        [part] = item["content"]
        index = 1 if self._told else 0
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        begun = item | {"status": "in_progress", "content": []}
        text = part["text"]
        return [
            self._emit("output_item.added", {"output_index": index, "item": begun}),
            self._emit("content_part.added", {**place, "part": text_part()}),
            *(
                self._emit("output_text.delta", {**place, "delta": text[at : at + PIECE], "logprobs": []})
                for at in range(0, len(text), PIECE)
            ),
            *(
                self._emit(
                    "output_text.annotation.added", {**place, "annotation_index": at, "annotation": one}
                )
                for at, one in enumerate(part["annotations"])
            ),
            self._emit("output_text.done", {**place, "text": text, "logprobs": []}),
            self._emit("content_part.done", {**place, "part": part}),
            self._emit("output_item.done", {"output_index": index, "item": item}),
        ]

    def _summary(self, **members: object) -> Json:
        return {"item_id": self._reasoning, "output_index": 0, "summary_index": 0, **members}

    def _early(self, status: str) -> Json:
        """The object before its end: without `sonde`, whose members are still to be known."""
        return {
            name: value
            for name, value in build_response(replace(self._run, status=status)).items()
            if name != "sonde"
        }

    def _lifecycle(self, name: str, response: Json) -> Event:
        return self._emit(name, {"response": response})

    def _emit(self, name: str, members: Json) -> Event:
        number, type_ = self._count, f"response.{name}"
        self._count += 1
        return Event(number, type_, _encode({"type": type_, "sequence_number": number, **members}))


def _lines(row: LogRow) -> list[str]:
    say = _SENTENCES.get(row.kind)
    return say(row.data) if say else [row.kind.replace("_", " ").capitalize()]


def _because(data: Data) -> str:
    return f": {' '.join(str(data['why']).split())}" if data.get("why") else ""


def _submitting(data: Data) -> list[str]:
    again = " once more, since the first attempt may not have arrived" if data.get("again") else ""
    return [f"Handing the question to {backend_name(data.get('backend', ''))}{again}"]


def _failover(data: Data) -> list[str]:
    before, after = backend_name(data.get("from", "")), backend_name(data.get("to", ""))
    return [f"{before} could not take it{_because(data)}", f"Trying {after}"]


def _progress(data: Data) -> list[str]:
    """What is new, and where nothing can be named, how far it is."""
    lines = [*data.get("goals", ()), *(f"Searching: {query}" for query in data.get("queries", ()))]
    lines += [_page(page) for page in data.get("pages", ())]
    if lines:
        return lines
    if data.get("characters"):
        return [f"Writing: {int(data['characters']):,} characters so far"]
    return [f"{data['percent']} % done"] if data.get("percent") is not None else []


def _page(page: Mapping[str, str]) -> str:
    url = page.get("url", "")
    title = " ".join((page.get("title") or "").split())
    return f"Found: [{title or url}]({url})"


def _stopping(data: Data) -> list[str]:
    if data.get("reason") == "budget":
        return ["The time budget is spent: asking for what is written so far"]
    return ["Passing the stop on"]


_SENTENCES: dict[str, Callable[[Data], list[str]]] = {
    "submitting": _submitting,
    "failover": _failover,
    "waiting": lambda data: [f"Trying again in {data.get('seconds', 0)} seconds{_because(data)}"],
    "running": lambda data: [f"{backend_name(data.get('backend', ''))} has begun the research"],
    "progress": _progress,
    "stop_requested": lambda data: ["Stop requested"],
    "stopping": _stopping,
    "trouble": lambda data: [f"No answer, asking again{_because(data)}"],
}
