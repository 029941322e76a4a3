"""The course of one entry: which record comes when, also on bad days (perplexity-web §10.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from sandbox.web.frames import Frames, upsell
from sandbox.web.stages import Due, Stage, timetable

BROKEN = b"{broken"
LIST = b'[{"status":"PENDING"}]'
_FAILURE = "This model is not available in this mode."


@dataclass(frozen=True, slots=True)
class Shot:
    """A record that is due once `at` (a share of the whole length) has passed; `stage` is where it leads."""

    at: float
    record: Callable[[], bytes]
    stage: Stage


def _steps(frames: Frames, course: list[Due]) -> Iterator[Shot]:
    before = Stage()
    for number, due in enumerate(course):
        yield Shot(due.at, partial(frames.between, number, before, due.stage), due.stage)
        before = due.stage


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


def _half(course: list[Due], pieces: int) -> list[Due]:
    return [due for due in course if due.stage.pieces <= pieces // 2 and not due.stage.complete]


def _spoilt(shots: list[Shot], frames: Frames) -> list[Shot]:
    """The shots with the data of some replaced by something that is no frame."""
    script = frames.script
    for marker, data in (("broken-json", BROKEN), ("array-frame", LIST)):
        number = int(script.number(marker, -1))
        if 0 <= number < len(shots):
            shots[number] = replace(shots[number], record=partial(bytes, data))
    return shots


def plot(frames: Frames) -> list[Shot]:
    """All records of an entry that nobody stops, in order."""
    script, content = frames.script, frames.content
    if frames.entry.fate == "upsell" or "upsell" in script:
        return _refusal(frames, script.markers.get("upsell") or "advanced_models_quota_low")
    if (failure := _failure(frames)) is not None:
        return failure
    course = timetable(
        content, frames.entry.seconds, clarify="clarify" in script, retract="retract" in script
    )
    if "stopped" in script:
        course = _half(course, len(content.pieces))
    shots = list(_steps(frames, course))
    stage = course[-1].stage
    number = len(shots)
    if "stopped" in script:
        shots.append(Shot(course[-1].at, partial(frames.stopped, number, stage), stage))
    elif "no-completed" not in script:
        whole = replace(stage, pieces=len(content.pieces))
        shots.append(Shot(1.0, partial(frames.last, number, whole), whole))
    return _spoilt(shots, frames)
