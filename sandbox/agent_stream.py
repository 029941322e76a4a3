"""The Agent API's event stream (perplexity-api §5.9): a timetable that follows from the job, and its playing.

The same job always has the same events with the same numbers, so that a stream can be resumed at any of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.agent_shapes import content, message_items, response, result, step_item
from sandbox.findings import Step
from sandbox.runs import QUEUED_SHARE, STUCK_SHARE, Moment, look, outcome
from sandbox.scenarios import Script
from sandbox.sources import Source
from sandbox.store import Job
from sandbox.wire import Cut, dump
from sandbox.world import World

_WRITING_FROM, _WRITING_TO = 0.9, 0.995
_PIECES = 60
_GLANCE = 0.1  # seconds between two looks at whether the run was cancelled

Build = Callable[[Moment, float], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Entry:
    """An event that is due once `at` (a share of the run) has passed; `build` gives its members from that moment."""

    at: float
    kind: str
    build: Build


def _fixed(at: float, kind: str, **members: object) -> Entry:
    return Entry(at, kind, lambda _moment, _now: members)


def _whole(at: float, kind: str) -> Entry:
    return Entry(at, kind, lambda moment, now: {"response": response(moment, now)})


def _step_entries(moment: Moment, index: int, step: Step) -> Iterator[Entry]:
    found = moment.findings
    seen: tuple[Source, ...] = found.seen(step)
    prefix = "response.reasoning."
    if step.kind == "search":
        results = [result(step.first + place + 1, source) for place, source in enumerate(seen)]
        yield _fixed(step.at, prefix + "search_queries", queries=list(step.queries))
        yield _fixed(step.at, prefix + "search_results", results=results)
    else:
        yield _fixed(step.at, prefix + "fetch_url_queries", urls=[source.url for source in seen])
        yield _fixed(step.at, prefix + "fetch_url_results", contents=[content(source) for source in seen])
    yield _fixed(step.at, "response.output_item.done", item=step_item(found, step), output_index=index)


def _pieces(text: str) -> list[str]:
    size = max(24, len(text) // _PIECES)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _message_entries(item: dict[str, Any], index: int) -> Iterator[Entry]:
    where = {"item_id": item["id"], "output_index": index}
    yield _fixed(
        _WRITING_FROM,
        "response.output_item.added",
        item={**item, "content": [], "status": "in_progress"},
        output_index=index,
    )
    for place, part in enumerate(item["content"]):
        pieces = _pieces(part["text"])
        for number, piece in enumerate(pieces):
            at = _WRITING_FROM + (_WRITING_TO - _WRITING_FROM) * number / len(pieces)
            yield _fixed(at, "response.output_text.delta", **where, content_index=place, delta=piece)
        yield _fixed(
            _WRITING_TO, "response.output_text.done", **where, content_index=place, text=part["text"]
        )
    yield _fixed(_WRITING_TO, "response.output_item.done", item=item, output_index=index)


def _ending(script: Script) -> Entry:
    state = outcome(script)
    if state == "failed":
        return Entry(1.0, "response.failed", lambda moment, now: {"error": response(moment, now)["error"]})
    return _whole(1.0, f"response.{state}")


def timetable(moment: Moment) -> Iterator[Entry]:
    """All events of a run that nobody cancels, in order."""
    yield _whole(0.0, "response.created")
    yield _whole(QUEUED_SHARE, "response.in_progress")
    yield _fixed(QUEUED_SHARE, "response.reasoning.started", thought="Planning the searches.")
    steps = moment.findings.steps if moment.findings.sources else ()
    for index, step in enumerate(steps):
        yield from _step_entries(moment, index, step)
    yield _fixed(_WRITING_FROM, "response.reasoning.stopped")
    state = outcome(moment.script)
    if state == "completed" or (state == "incomplete" and "incomplete-empty" not in moment.script):
        items = message_items(moment.job.id, moment.findings.text, moment.script)
        for place, item in enumerate(items):
            yield from _message_entries(item, len(steps) + place)
    yield _ending(moment.script)


def _frame(script: Script, number: int, kind: str, members: dict[str, object]) -> bytes:
    data = b"data: " + dump({"type": kind, "sequence_number": number, **members}) + b"\n\n"
    return b": keep-alive\n\nevent: " + kind.encode() + b"\n" + data if "event-lines" in script else data


async def _silence(world: World) -> None:
    while True:
        await world.sleep(3600)


async def _until_due(world: World, job: Job, at: float) -> Job | None:
    """Waits for a share of the run; None once the run was cancelled."""
    script = look(job, world.clock()).script
    ignored = "cancel-ignored" in script
    if (at > STUCK_SHARE and "stuck" in script) or (at > 0 and "stuck-queued" in script):
        at = float("inf")
    due = job.created + at * job.seconds
    while True:
        now = world.store.find("agent", job.account, job.id)
        if now is None or (now.cancelled_at is not None and not ignored):
            return None
        left = due - world.clock()
        if left <= 0:
            return now
        await world.sleep(min(left, _GLANCE))


def _cancelled_frame(world: World, job: Job, number: int) -> bytes:
    now = world.clock()
    moment = look(job, now)
    over = Moment(job, moment.script, "cancelled", moment.share, moment.started, now)
    return _frame(moment.script, number, "response.cancelled", {"response": response(over, now)})


async def play(world: World, job: Job, after: int, *, resumed: bool) -> AsyncIterator[bytes | Cut]:
    """The events numbered above `after`, each when it is due; the faults of a stream meet only the first one."""
    script = look(job, world.clock()).script
    number = -1
    for number, entry in enumerate(timetable(look(job, world.clock()))):
        if number <= after:
            continue
        if not resumed:
            if number == script.number("cut-stream", -1):
                yield Cut()
                return
            if number == script.number("idle-stream", -1):
                await _silence(world)
            if number == script.number("error-stream", -1):
                yield _frame(
                    script, number, "error", {"error": {"message": "stream lost", "type": "bad_gateway"}}
                )
                return
        current = await _until_due(world, job, entry.at)
        if current is None:
            yield _cancelled_frame(world, job, number)
            return
        now = world.clock()
        yield _frame(script, number, entry.kind, entry.build(look(current, now), now))
    if "event-lines" in script:
        yield b"data: [DONE]\n\n"
