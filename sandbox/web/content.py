"""Everything that an entry will say, worked out once: text in pieces, sources, goals, steps, report."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from sandbox.reports import compose
from sandbox.scenarios import Script, plain_question, read_script
from sandbox.sources import Source, dress_sources, plain_sources
from sandbox.topics import Topic, read_topic
from sandbox.variants import dress
from sandbox.web import answers, bridge
from sandbox.web.ask_request import Ask
from sandbox.web.markers import spoken
from sandbox.web.preferences import AUTOMATIC, RESEARCH, thinks

Flow = Literal["quick", "search", "thinking", "research"]
_NAMESPACE = uuid.UUID("b7a1c2a0-5a58-4a0b-8d0e-3a4d8f1c2b6e")
_TAIL = 8  # characters; an auxiliary tail has at most 16 (§9)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the work. `block` is its content in `pro_search_steps`, `text` its content in the `text`
    member, either None where that place does not show it; `round` is the goal that it serves."""

    kind: str
    id: str
    round: int
    block: dict[str, Any] | None = None
    text: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What one entry says. `answer` is the final snapshot of the text, usually all pieces joined; `early` the
    sources in the order of the first lists; `report` the body of deep research (Markdown), else None."""

    flow: Flow
    question: str
    pieces: tuple[str, ...]
    answer: str
    sources: tuple[dict[str, Any], ...]
    early: tuple[dict[str, Any], ...]
    goals: tuple[str, ...]
    steps: tuple[Step, ...]
    report: str | None = None

    @property
    def title(self) -> str:
        return self.question[:120]


def flow_of(preference: str, script: Script) -> Flow:
    if preference == RESEARCH:
        return "research"
    if "thinking" in script or thinks(preference):
        return "thinking"
    return "quick" if preference in AUTOMATIC else "search"


@lru_cache(maxsize=256)
def _material(question: str) -> tuple[Topic, Script, tuple[Source, ...], tuple[dict[str, Any], ...]]:
    """Topic, script, the eight plain sources, and the web results as the script bends them."""
    script = read_script(question, "web")
    topic = read_topic(plain_question(question))
    plain = plain_sources(topic)
    return topic, script, plain, tuple(answers.web_result(source) for source in dress_sources(plain, script))


def _rounds(flow: Flow, topic: Topic) -> list[list[str]]:
    """The queries of each round of searching."""
    whole = [
        [topic.short],
        [f"{topic.first} overview", f"{topic.second} methods"],
        [f"{topic.third} criticism", f"{topic.third} outlook"],
    ]
    return {"quick": whole[:1], "search": whole[:1], "thinking": whole[:2], "research": whole}[flow]


def _steps(flow: Flow, question: str, topic: Topic, results: Sequence[dict[str, Any]]) -> Iterator[Step]:
    def step(kind: str, round_: int, block: dict[str, Any] | None, text: dict[str, Any] | None) -> Step:
        name = uuid.uuid5(_NAMESPACE, f"{question}\n{flow}\n{kind}\n{round_}")
        return Step(kind, str(name), round_, block, text)

    first = {"query": topic.question}
    yield step("INITIAL_QUERY", 0, first, first)
    if flow == "research":
        yield step("LOAD_SKILL", 0, None, {"skill_names": ["research"]})
        yield step("LOAD_SKILL_RESPONSE", 0, None, {})
    for number, queries in enumerate(_rounds(flow, topic)):
        searched = {"queries": [{"engine": "web", "query": query, "limit": 10} for query in queries]}
        seen = results[number * 2 : number * 2 + 2]
        if flow in ("thinking", "research"):
            yield step("THOUGHT", number, {}, {"thought": f"Next: {queries[0]}."})
        yield step("SEARCH_WEB", number, searched, searched)
        yield step("READ_RESULTS", number, {"urls": [result["url"] for result in seen]}, None)
        yield step("SEARCH_RESULTS", number, None, {"web_results": list(seen)})


def _goals(flow: Flow, topic: Topic) -> tuple[str, ...]:
    whole = (f"Getting to know {topic.first}", f"Measuring {topic.second}", f"Doubting {topic.third}")
    return {"quick": (), "search": (), "thinking": whole[:2], "research": whole}[flow]


@dataclass(frozen=True, slots=True)
class _Matter:
    """All that the content of an entry follows from. `sent` is what the client says was asked before,
    `called` the answer to a request with functions."""

    question: str
    preference: str
    fate: str
    thread: tuple[str, ...]
    sent: tuple[str, ...]
    attachments: int
    called: str | None


def _said(matter: _Matter, script: Script, topic: Topic, flow: Flow) -> str:
    if "say" in script:
        return spoken(script.markers["say"])
    if "recall" in script:
        return answers.recollection(matter.thread)
    if "authwall" in script:
        return answers.WALL
    if matter.called is not None:
        return matter.called
    if flow == "research":
        return "" if "empty" in script else answers.cover_note(topic)
    return answers.answer(topic, matter.thread, matter.sent, matter.attachments)


def _final(text: str, script: Script) -> str:
    """The snapshot on the last frame."""
    if "retract" in script:
        return ""
    if "rewrite" in script:
        return answers.REWRITTEN
    return answers.renumbered(text) if "renumber" in script else text


def _cut(text: str, script: Script) -> tuple[str, ...]:
    if "aux-tail" in script and len(text) > 20 * _TAIL:
        return (*answers.pieces(text[:-_TAIL], int(script.number("pieces", 0))), text[-_TAIL:])
    return answers.pieces(text, int(script.number("pieces", 0)))


def _dressed(text: str, topic: Topic, script: Script, sources: tuple[Source, ...]) -> str:
    """The text as markers bend it; what was to be said verbatim stays."""
    return text if "say" in script else dress(text, topic, script, tuple(source.url for source in sources))


# The same question comes thousands of times in a trial of speed.
@lru_cache(maxsize=64)
def _content(matter: _Matter) -> Content:
    topic, script, plain, results = _material(matter.question)
    if matter.fate == "authwall":
        script = replace(script, markers={"authwall": ""})
        results = ()
    flow = flow_of(matter.preference, script)
    text = _said(matter, script, topic, flow)
    if matter.called is None and flow != "research":
        text = _dressed(text, topic, script, plain)
    number = answers.COVER_SOURCES if flow == "research" else answers.CHAT_SOURCES
    shown = results[:number]
    return Content(
        flow=flow,
        question=topic.question,
        pieces=_cut(text, script),
        answer=_final(text, script),
        sources=shown,
        early=tuple(reversed(shown)),
        goals=_goals(flow, topic),
        steps=tuple(_steps(flow, matter.question, topic, shown)),
        report=_dressed(compose(topic), topic, script, plain) if flow == "research" else None,
    )


def _called(ask: Ask) -> str | None:
    if ask.bridge is None:
        return None
    return bridge.reply(ask.bridge, read_script(ask.question, "web").markers.get("bridge", ""))


def content_of(ask: Ask, preference: str, fate: str, thread: Sequence[str]) -> Content:
    """What an entry says that `preference` answers. `thread` is what was asked before in its thread."""
    matter = _Matter(
        question=ask.question,
        preference=preference,
        fate=fate,
        thread=tuple(map(plain_question, thread)),
        sent=tuple(map(plain_question, ask.earlier)),
        attachments=len(ask.params.get("attachments") or ()),
        called=_called(ask),
    )
    return _content(matter)
