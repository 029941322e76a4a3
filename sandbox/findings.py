"""What a run finds: its steps, its sources, its text. Everything follows from the question alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sandbox.markers import Api
from sandbox.reports import compose
from sandbox.scenarios import plain_question, read_script
from sandbox.sources import Source, dress_sources, plain_sources
from sandbox.topics import Topic, read_topic
from sandbox.variants import dress, unmarked


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of work, visible once `at` (a share of the run, 0 to 1) has passed.

    A search has queries; `first` and `last` bound the sources it found, or those a fetch read (half open).
    """

    at: float
    kind: Literal["search", "fetch"]
    first: int
    last: int
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """What a request lets its run do. One that `sees` nothing searches in vain."""

    searches: bool = True
    fetches: bool = True
    sees: bool = True


EVERYTHING = Reach()


@dataclass(frozen=True, slots=True)
class Findings:
    """Text (Markdown) and sources of a finished run, and the steps that led there."""

    text: str
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]

    def seen(self, step: Step) -> tuple[Source, ...]:
        return self.sources[step.first : step.last]

    @property
    def queries(self) -> int:
        return sum(len(step.queries) for step in self.steps)

    @property
    def fetches(self) -> int:
        return sum(step.kind == "fetch" for step in self.steps)


def _steps(topic: Topic) -> tuple[Step, ...]:
    first, second, third = topic.first, topic.second, topic.third
    return (
        Step(0.15, "search", 0, 3, (topic.short, f"{first} overview", f"{first} background")),
        Step(0.30, "fetch", 0, 2),
        Step(0.45, "search", 3, 6, (f"{second} methods", f"{second} figures", f"{second} case study")),
        Step(0.60, "fetch", 3, 5),
        Step(0.75, "search", 6, 8, (f"{third} criticism", f"{third} outlook")),
        Step(0.88, "fetch", 6, 7),
    )


@lru_cache(maxsize=64)
def findings(question: str, api: Api, reach: Reach = EVERYTHING) -> Findings:
    """The findings for a question as its markers bend them and the request's reach cuts them."""
    script = read_script(question, api)
    topic = read_topic(plain_question(question))
    plain = plain_sources(topic)
    text = dress(compose(topic), topic, script, tuple(source.url for source in plain))
    allowed = {"search": reach.searches, "fetch": reach.fetches}
    steps = tuple(step for step in _steps(topic) if allowed[step.kind])
    if reach.sees and steps:
        return Findings(text, dress_sources(plain, script), steps)
    return Findings(unmarked(text), (), steps)
