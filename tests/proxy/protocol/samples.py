"""Golden streams of the web upstream: bytes and what they must mean, both written from the reference.

`tests/samples/web/NAME.sse` holds the bytes, `NAME.json` the meaning: `content`, or `fault` and what
was `sent` before it; the other members are looked at where they are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from portal.wire.sse import SseDecoder
from proxy.protocol.delta import Delta, Done, Fault, Progress, Reasoning, Text
from proxy.protocol.finishing import Finisher
from proxy.protocol.web_events import WebAnswer
from tests.environment import ROOT

FOLDER = ROOT / "tests" / "samples" / "web"


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    stream: bytes
    requested: str
    expected: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def load(path_name: str) -> Sample:
    expected = json.loads((FOLDER / f"{path_name}.json").read_text(encoding="utf-8"))
    return Sample(path_name, (FOLDER / f"{path_name}.sse").read_bytes(), expected.pop("requested"), expected)


SAMPLES = [load(path.stem) for path in sorted(FOLDER.glob("*.sse"))]


def read(pieces: Iterable[bytes], requested: str, *, keeps_marks: bool = False) -> list[Delta]:
    """All deltas of a stream that arrives in `pieces`, finished."""
    decoder, answer = SseDecoder(), WebAnswer(requested)
    finisher = Finisher(keeps_marks=keeps_marks)
    deltas: list[Delta] = []
    for piece in pieces:
        for record in decoder.feed(piece):
            deltas += finisher.pass_on(answer.read(record))
    return deltas + finisher.pass_on(answer.close())


def text_of(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def last_of(deltas: list[Delta]) -> Done | Fault:
    last = deltas[-1]
    assert isinstance(last, Done | Fault)
    return last


def meaning(deltas: list[Delta]) -> dict[str, Any]:
    """Deltas in the form of the golden JSON."""
    last = last_of(deltas)
    if isinstance(last, Fault):
        return {"fault": last.kind.value, "detail": last.detail, "sent": text_of(deltas)}
    content = text_of(deltas)
    return {
        "content": content,
        "answer": last.answer,
        "report": last.report,
        "reasoning": [delta.line for delta in deltas if isinstance(delta, Reasoning)],
        "progress": [[one.percent, one.eta_seconds] for one in deltas if isinstance(one, Progress)],
        "sources": [[source.title, source.url] for source in last.sources],
        "citations": [[content[one.start : one.end], one.source.url] for one in last.citations],
        "model": last.model.preference if last.model else None,
        "substituted": last.model.substituted if last.model else None,
        "thread": {
            "entry": last.thread.entry,
            "context": last.thread.context,
            "token": last.thread.token,
            "slug": last.thread.slug,
        },
    }
