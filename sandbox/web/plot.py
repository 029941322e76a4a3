"""The course of one entry: which record comes when, also on bad days (perplexity-web §10.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from sandbox.scenarios import Script
from sandbox.web.frames import Frames, upsell
from sandbox.web.stages import Stage, timetable

BROKEN = b"{broken"
LIST = b'[{"status":"PENDING"}]'
_FAILURE = "This model is not available in this mode."


@dataclass(frozen=True, slots=True)
class Shot:
    """A record that is due once `at` (a share of the whole length) has passed; `stage` is where it leads."""

    at: float
    record: Callable[[], bytes]
    stage: Stage


def _refusal(frames: Frames, name: str) -> list[Shot]:
    nothing = replace(Stage(), complete=True)
    return [
        Shot(0.02, partial(frames.bare, 0, upsell_information=upsell(name)), Stage()),
        Shot(
            0.1,
            partial(
                frames.bare, 1, status="COMPLETED", final=True, text_completed=True, final_sse_message=True,
                reconnectable=False,
            ),
            nothing,
        ),
    ]  # fmt: skip


def _failure(frames: Frames) -> list[Shot] | None:
    """The two frames of an entry that ends before it said anything, if it does."""
    script = frames.script
    if frames.entry.fate == "failed" or "failed" in script:
        last = partial(
            frames.alone, status="FAILED", error_code="MODEL_NOT_AVAILABLE", error_message=_FAILURE, text="[]"
        )
    elif "failed-silent" in script:
        last = partial(frames.alone, status="FAILED", text="[]")
    elif "error-frame" in script:
        last = partial(frames.alone, error="boom")
    elif "error-code" in script:
        last = partial(frames.alone, error_code=script.markers["error-code"], text="Please try again later.")
    else:
        return None
    return [Shot(0.02, partial(frames.bare, 0), Stage()), Shot(0.1, last, Stage())]


def _last(frames: Frames, number: int, before: Stage) -> Iterator[Shot]:
    if "no-completed" not in frames.script:
        stage = replace(before, pieces=len(frames.content.pieces))
        yield Shot(1.0, partial(frames.last, number, stage), stage)


def _course(frames: Frames) -> Iterator[Shot]:
    """An answer from its first frame to its last; one that stops by itself ends half way."""
    script, content = frames.script, frames.content
    course = timetable(
        content, frames.entry.seconds, clarify="clarify" in script, retract="retract" in script
    )
    before, number = Stage(), 0
    for due in course:
        if "stopped" in script and due.stage.pieces > len(content.pieces) // 2:
            yield Shot(due.at, partial(frames.stopped, number, before), before)
            return
        yield Shot(due.at, partial(frames.between, number, before, due.stage), due.stage)
        before, number = due.stage, number + 1
    yield from _last(frames, number, before)


def _spoilt(script: Script) -> dict[int, bytes]:
    """The numbers of frames that are none, with what stands in their place."""
    found = {
        int(script.number(marker, -1)): data
        for marker, data in (("broken-json", BROKEN), ("array-frame", LIST))
    }
    return {number: data for number, data in found.items() if number >= 0}


def plot(frames: Frames) -> Iterator[Shot]:
    """All records of an entry that nobody stops, in order."""
    script = frames.script
    shots: Iterable[Shot] = _failure(frames) or _course(frames)
    if frames.entry.fate == "upsell" or "upsell" in script:
        shots = _refusal(frames, script.markers.get("upsell") or "advanced_models_quota_low")
    spoilt = _spoilt(script)
    for number, shot in enumerate(shots):
        yield replace(shot, record=partial(bytes, spoilt[number])) if number in spoilt else shot
