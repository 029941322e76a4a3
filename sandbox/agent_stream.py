"""The Agent API's event stream (perplexity-api §5.9): a timetable that follows from the job, and its playing.

The same job always has the same events with the same numbers, so that a stream can be resumed at any of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sandbox.agent_shapes import content, found, message_items, response, result, step_item
from sandbox.findings import Findings, Step
from sandbox.runs import QUEUED_SHARE, STUCK_SHARE, Moment, cancelled, look, outcome
from sandbox.scenarios import Script
from sandbox.store import Job
from sandbox.wire import dump
from sandbox.world import World

_WRITING_FROM, _WRITING_TO = 0.9, 0.995
_PIECES = 60
_GLANCE = 0.1  # seconds between two looks at whether the run was cancelled

Build = Callable[[Moment, float], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Entry:
    """An event that is due once `at` (a share of the run) has passed; `build` gives its members from then."""

    at: float
    kind: str
    build: Build


def _fixed(at: float, kind: str, **members: object) -> Entry:
    return Entry(at, kind, lambda _moment, _now: members)


def _whole(at: float, kind: str) -> Entry:
    return Entry(at, kind, lambda moment, now: {"response": response(moment, now)})


def _step_entries(whole: Findings, index: int, step: Step) -> Iterator[Entry]:
    seen = whole.seen(step)
    prefix = "response.reasoning."
    if step.kind == "search":
        results = [result(step.first + place + 1, source) for place, source in enumerate(seen)]
        yield _fixed(step.at, prefix + "search_queries", queries=list(step.queries))
        yield _fixed(step.at, prefix + "search_results", results=results)
    else:
        yield _fixed(step.at, prefix + "fetch_url_queries", urls=[source.url for source in seen])
        yield _fixed(step.at, prefix + "fetch_url_results", contents=[content(source) for source in seen])
    yield _fixed(step.at, "response.output_item.done", item=step_item(whole, step), output_index=index)


def _pieces(text: str) -> list[str]:
    size = max(24, len(text) // _PIECES)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _message_entries(item: dict[str, Any], index: int) -> Iterator[Entry]:
    where = {"item_id": item["id"], "output_index": index}
    begun = {**item, "content": [], "status": "in_progress"}
    yield _fixed(_WRITING_FROM, "response.output_item.added", item=begun, output_index=index)
    for place, part in enumerate(item["content"]):
        pieces = _pieces(part["text"])
        for number, piece in enumerate(pieces):
            at = _WRITING_FROM + (_WRITING_TO - _WRITING_FROM) * number / len(pieces)
            yield _fixed(at, "response.output_text.delta", **where, content_index=place, delta=piece)
        done = {**where, "content_index": place, "text": part["text"]}
        yield _fixed(_WRITING_TO, "response.output_text.done", **done)
    yield _fixed(_WRITING_TO, "response.output_item.done", item=item, output_index=index)


def _ending(script: Script) -> Entry:
    state = outcome(script)
    if state == "failed":
        return Entry(1.0, "response.failed", lambda moment, now: {"error": response(moment, now)["error"]})
    return _whole(1.0, f"response.{state}")


def _timetable(moment: Moment) -> Iterator[Entry]:
    """All events of a run that nobody cancels, in order."""
    yield _whole(0.0, "response.created")
    yield _whole(QUEUED_SHARE, "response.in_progress")
    yield _fixed(QUEUED_SHARE, "response.reasoning.started", thought="Planning the searches.")
    whole = found(moment)
    steps = whole.steps if whole.sources else ()
    for index, step in enumerate(steps):
        yield from _step_entries(whole, index, step)
    yield _fixed(_WRITING_FROM, "response.reasoning.stopped")
    state = outcome(moment.script)
    if state == "completed" or (state == "incomplete" and "incomplete-empty" not in moment.script):
        items = message_items(moment.job.id, whole.text, moment.script)
        for place, item in enumerate(items):
            yield from _message_entries(item, len(steps) + place)
    yield _ending(moment.script)


def _frame(script: Script, number: int, kind: str, members: dict[str, object]) -> bytes:
    data = b"data: " + dump({"type": kind, "sequence_number": number, **members}) + b"\n\n"
    return b": keep-alive\n\nevent: " + kind.encode() + b"\n" + data if "event-lines" in script else data


def _due(job: Job, script: Script, at: float) -> float:
    if ("stuck" in script and at > STUCK_SHARE) or ("stuck-queued" in script and at > 0):
        return float("inf")
    return job.created + at * job.seconds


async def _until_due(world: World, job: Job, script: Script, at: float) -> Job:
    """Waits for a share of the run, or until it is cancelled."""
    due = _due(job, script, at)
    while True:
        current = world.store.find("agent", job.account, job.id) or job
        left = due - world.clock()
        if left <= 0 or cancelled(current, script):
            return current
        await world.sleep(min(left, _GLANCE))


async def play(world: World, job: Job, after: int) -> AsyncIterator[bytes]:
    """The events numbered above `after`, each when it is due; a cancel ends them by `response.cancelled`."""
    start = look(job, world.clock())
    script = start.script
    for number, entry in enumerate(_timetable(start)):
        if number <= after:
            continue
        current = await _until_due(world, job, script, entry.at)
        now = world.clock()
        moment = look(current, now)
        if cancelled(current, script):
            over = replace(moment, state="cancelled")
            yield _frame(script, number, "response.cancelled", {"response": response(over, now)})
            break
        yield _frame(script, number, entry.kind, entry.build(moment, now))
    if "event-lines" in script:
        yield b"data: [DONE]\n\n"
