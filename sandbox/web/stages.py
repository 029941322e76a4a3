"""How far an answer has come, and when it gets there: a timetable in shares of the whole length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sandbox.web.content import Content

_TEXT_FROM = {"quick": 0.1, "search": 0.1, "thinking": 0.35, "research": 0.85}
_TEXT_TO = 0.9
_COMPLETE = 0.93
CLARIFIED = 0.025


@dataclass(frozen=True, slots=True)
class Stage:
    """What is out so far. Numbers count from the beginning; `percent` and `eta` (seconds) are research's."""

    goals: int = 0
    goals_done: int = 0
    percent: int | None = None
    eta: int | None = None
    steps: int = 0
    found: Literal["none", "early", "final"] = "none"
    media: bool = False
    pieces: int = 0
    report: bool = False
    clarifying: bool = False
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A stage that is reached once `at`, a share from 0 to 1, has passed."""

    at: float
    stage: Stage


def _searching(content: Content, until: float, seconds: float, asked: bool) -> Iterator[Due]:
    """The steps one by one, each with the goal that it serves."""
    last = len(content.steps)
    for number, step in enumerate(content.steps, 1):
        share = 0.03 + (until - 0.03) * number / (last + 1)
        percent = min(99, int(share * 100)) if content.flow == "research" else None
        stage = Stage(
            goals=min(step.round + 1, len(content.goals)),
            goals_done=min(step.round, len(content.goals)),
            percent=percent,
            eta=None if percent is None else max(1, round(seconds * (1 - share))),
            steps=number,
            clarifying=asked,
        )
        yield Due(share, stage)


def _quick(content: Content) -> Iterator[Due]:
    yield Due(0.03, Stage())
    yield Due(0.06, Stage(steps=len(content.steps), found="early" if content.sources else "none"))


def _beginning(content: Content, begin: float, seconds: float, asked: bool) -> Iterator[Due]:
    """Up to the first piece of text."""
    first = Stage(percent=0, eta=round(seconds)) if content.flow == "research" else Stage()
    yield Due(0.01, first)
    if asked:
        yield Due(CLARIFIED, replace(first, clarifying=True))
    if content.flow == "quick":
        yield from _quick(content)
    else:
        yield from _searching(content, begin, seconds, asked)


def _writing(content: Content, stage: Stage, begin: float) -> Iterator[Due]:
    number = len(content.pieces)
    for place in range(number):
        half = place >= number // 2
        stage = replace(stage, pieces=place + 1, media=half)
        yield Due(begin + (_TEXT_TO - begin) * place / number, stage)


def timetable(content: Content, seconds: float, *, clarify: bool, retract: bool) -> Iterator[Due]:
    """Every stage but the last frame's, which is due at 1. `seconds` is the planned length."""
    begin = _TEXT_FROM[content.flow]
    stage = Stage()
    for due in _beginning(content, begin, seconds, clarify):
        stage = due.stage
        yield due
    stage = replace(stage, goals_done=len(content.goals))
    if content.sources and stage.found == "none":
        stage = replace(stage, found="early")
        yield Due(begin - 0.01, stage)
    yield from _writing(content, stage, begin)
    number = len(content.pieces)
    yield Due(
        _COMPLETE,
        replace(
            stage,
            media=number > 0,
            pieces=0 if retract else number,
            complete=True,
            found="final" if content.sources else "none",
            report=content.flow == "research",
        ),
    )
