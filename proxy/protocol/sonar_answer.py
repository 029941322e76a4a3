"""What Sonar's synchronous answers are made of (perplexity-api §4.1): deltas in, JSON out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from portal.wire.errors import Problem
from portal.wire.gateway import gateway_body
from proxy.protocol.chat_stream import Json, usage
from proxy.protocol.delta import Delta, Done, Reasoning, Source, Text
from proxy.protocol.notices import appended

Body = dict[str, object]
_NO_COST: Json = {"input_tokens_cost": 0.0, "output_tokens_cost": 0.0, "total_cost": 0.0}


@dataclass(frozen=True, slots=True)
class SonarHead:
    """What every body and chunk of one answer shares. `model` is the name that was asked for."""

    id: str
    created: int
    model: str

    def begin(self, kind: str) -> Body:
        return {"id": self.id, "model": self.model, "created": self.created, "object": kind}


@dataclass(frozen=True, slots=True)
class SonarEnd:
    """What is only known when the answer is whole. `query_characters` were sent upstream."""

    done: Done
    query_characters: int
    notices: tuple[str, ...] = ()
    sonde: Json = field(default_factory=dict)

    @property
    def appendix(self) -> str:
        return appended(self.notices)

    def usage(self, content: str, steps: Sequence[Body]) -> Body:
        """Tokens are estimated. A web session is paid by the month: no request has a price."""
        return {
            **usage(self.query_characters, content),
            "num_search_queries": sum(step.get("type") == "web_search" for step in steps),
            "cost": {**_NO_COST, "request_cost": 0.0},
        }


def no_usage() -> Body:
    """While the answer is being made."""
    return {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost": _NO_COST}


def message(content: str, steps: Sequence[Body] = ()) -> Body:
    said: Body = {"role": "assistant", "content": content}
    return said | {"reasoning_steps": list(steps)} if steps else said


def choice(delta: Body, whole: Body, finish_reason: str | None = None) -> Body:
    """A choice holds both, whatever it is for."""
    return {"index": 0, "finish_reason": finish_reason, "message": whole, "delta": delta}


def found(sources: Sequence[Source]) -> Body:
    """The n-th of each is what a mark `[n]` means."""
    return {
        "citations": [source.url for source in sources],
        "search_results": [search_result(source) for source in sources],
    }


def search_result(source: Source) -> Body:
    return {
        "title": source.title or source.url,
        "url": source.url,
        "date": source.date or None,
        "last_updated": None,
        "snippet": source.snippet,
        "source": "web",
    }


def step_of(line: Reasoning) -> Body:
    """A step on the way, as one of `reasoning_steps`."""
    page = [search_result(Source(line.subject, line.title))]
    if line.activity == "searching":
        return _search(line.line, [line.subject], [])
    if line.activity == "found":
        return _search(line.line, [], page)
    if line.activity == "reading":
        fetched = {"contents": page}
        return {"thought": line.line, "type": "fetch_url_content", "fetch_url_content": fetched}
    return {"thought": line.line}


def _search(thought: str, words: list[str], pages: list[Body]) -> Body:
    search = {"search_keywords": words, "search_results": pages}
    return {"thought": thought, "type": "web_search", "web_search": search}


@dataclass(slots=True)
class SonarFold:
    """The plain answer."""

    text: list[str] = field(default_factory=list)
    steps: list[Body] = field(default_factory=list)

    def add(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, Text):
                self.text.append(delta.text)
            elif isinstance(delta, Reasoning):
                self.steps.append(step_of(delta))

    def body(self, head: SonarHead, end: SonarEnd) -> Body:
        content = "".join(self.text).strip() + end.appendix
        return {
            **head.begin("chat.completion"),
            "choices": [choice(message(""), message(content, self.steps), "stop")],
            **found(end.done.sources),
            "usage": end.usage(content, self.steps),
            "sonde": end.sonde,
        }


def error_body(problem: Problem) -> Body:
    return dict(gateway_body(problem))
