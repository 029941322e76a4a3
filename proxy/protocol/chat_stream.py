"""Deltas → Chat Completions, streamed and plain (proxy-contract §§4.4-4.5, openai-compat §2).

The stream is built for one write per upstream read: what never changes in a chunk is encoded once,
and all chunks of a read are one piece of bytes. The first piece carries the role, so nothing commits
the answer before there is something to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from portal.wire.errors import Problem
from proxy.protocol.delta import Citation, Delta, Done, Reasoning, Source, Text
from proxy.protocol.notices import appended, footer

Json = Mapping[str, object]

_encode = msgspec.json.Encoder().encode
_DONE = b"data: [DONE]\n\n"
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ChatHead:
    """What all chunks of an answer share. `model` is the id that was asked for."""

    id: str
    created: int
    model: str
    include_usage: bool = False


@dataclass(frozen=True, slots=True)
class Closing:
    """What is only known when the answer is whole.

    `query_characters` were sent upstream. `sonde` is our own member of the answer: who answered,
    what was ignored (SPEC 10.9).
    """

    query_characters: int
    notices: tuple[str, ...] = ()
    footer_of: tuple[Source, ...] = ()
    """Sources to list behind the answer: empty unless the caller wants the footer."""
    sonde: Json = field(default_factory=dict)

    @property
    def appendix(self) -> str:
        listed = footer(self.footer_of)
        return appended(([listed] if listed else []) + list(self.notices))


def usage(query_characters: int, content: str) -> dict[str, int]:
    """An estimate: four characters a token."""
    prompt = query_characters // _CHARACTERS_PER_TOKEN
    completion = len(content) // _CHARACTERS_PER_TOKEN
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def annotation(citation: Citation) -> dict[str, object]:
    """The nested shape of Chat Completions (openai-compat §2.2)."""
    return {
        "type": "url_citation",
        "url_citation": {
            "start_index": citation.start,
            "end_index": citation.end,
            "url": citation.source.url,
            "title": citation.source.title or citation.source.url,
        },
    }


def our_member(done: Done, answered_by: str, *, sandbox: bool, ignored: tuple[str, ...] = ()) -> Json:
    """`sonde`, the member that is ours (SPEC 10.9). `answered_by` is the model's label, "" for unknown."""
    return {
        "backend": "web",
        "model": answered_by or None,
        "substituted": done.model is not None and done.model.substituted,
        "sandbox": sandbox,
        "ignored": list(ignored),
        "usage": "estimated",
        **found_of(done),
    }


def found_of(done: Done) -> dict[str, object]:
    """Members of `sonde`: every source of an answer, cited or not, and marks that lead to none."""
    cited = {citation.source for citation in done.citations}
    sources = [
        {
            "id": number,
            "url": source.url,
            "title": source.title,
            "provenance": "cited" if source in cited else "retrieved",
        }
        for number, source in enumerate(done.sources, 1)
        if source.url
    ]
    checks = {
        "out_of_range": list(done.checks.out_of_range),
        "unattributed": list(done.checks.unattributed),
    }
    return {"sources": sources, "checks": checks}


def error_frame(problem: Problem) -> bytes:
    """The last frame of a stream that fails: no `stop`, no `[DONE]` after it."""
    return b"data: " + _encode(problem.body()) + b"\n\n"


class ChatStream:
    """Encodes one streamed answer."""

    def __init__(self, head: ChatHead) -> None:
        self._head = head
        begin = (
            b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,'
            b'"system_fingerprint":null,"choices":[{"index":0,"delta":'
            % (_encode(head.id), head.created, _encode(head.model))
        )
        self._begin = begin
        self._end = self._ending(b"null")
        self._text_begin = begin + b'{"content":'
        self._reasoning_begin = begin + b'{"reasoning_content":'
        self._inner_end = b"}" + self._end
        self._started = False
        self._pieces: list[str] = []

    @property
    def started(self) -> bool:
        """Whether anything was encoded: before that, a failure is still an HTTP error."""
        return self._started

    def encode(self, deltas: list[Delta]) -> bytes:
        """The chunks of one read: b"" when nothing in it is for the client."""
        chunks: list[bytes] = []
        for delta in deltas:
            if isinstance(delta, Text):
                self._pieces.append(delta.text)
                chunks += (self._text_begin, _encode(delta.text), self._inner_end)
            elif isinstance(delta, Reasoning):
                chunks += (self._reasoning_begin, _encode(delta.line + "\n"), self._inner_end)
        return self._opened(b"".join(chunks)) if chunks else b""

    def finish(self, done: Done, closing: Closing) -> bytes:
        """Everything behind the text: appendix, annotations, the stop, usage, `[DONE]`."""
        chunks: list[bytes] = []
        if appendix := closing.appendix:
            chunks.append(self._chunk({"content": appendix}))
        if done.citations:
            chunks.append(self._chunk({"annotations": [annotation(one) for one in done.citations]}))
        chunks.append(self._stop(closing.sonde))
        if self._head.include_usage:
            chunks.append(self._usage("".join(self._pieces) + appendix, closing))
        chunks.append(_DONE)
        return self._opened(b"".join(chunks))

    def _opened(self, chunks: bytes) -> bytes:
        if self._started:
            return chunks
        self._started = True
        return self._chunk({"role": "assistant"}) + chunks

    def _chunk(self, delta: Json) -> bytes:
        return self._begin + _encode(delta) + self._end

    def _ending(self, finish_reason: bytes, more: bytes = b"") -> bytes:
        no_usage = b',"usage":null' if self._head.include_usage else b""
        return b',"logprobs":null,"finish_reason":%b}]%b%b}\n\n' % (finish_reason, no_usage, more)

    def _stop(self, sonde: Json) -> bytes:
        said = b',"sonde":' + _encode(sonde) if sonde else b""
        return self._begin + b"{}" + self._ending(b'"stop"', said)

    def _usage(self, content: str, closing: Closing) -> bytes:
        chunk = {
            "id": self._head.id,
            "object": "chat.completion.chunk",
            "created": self._head.created,
            "model": self._head.model,
            "system_fingerprint": None,
            "choices": [],
            "usage": usage(closing.query_characters, content),
        }
        return b"data: " + _encode(chunk) + b"\n\n"


@dataclass(slots=True)
class ChatFold:
    """The plain answer: the same deltas, folded."""

    text: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, Text):
                self.text.append(delta.text)
            elif isinstance(delta, Reasoning):
                self.lines.append(delta.line)

    def body(self, head: ChatHead, done: Done, closing: Closing) -> bytes:
        """The JSON body. The answer is trimmed, and its citations move with it."""
        whole = "".join(self.text)
        answer = whole.strip()
        content = answer + closing.appendix
        message: dict[str, object] = {"role": "assistant", "content": content, "refusal": None}
        if self.lines:
            message["reasoning_content"] = "\n".join(self.lines)
        lead = len(whole) - len(whole.lstrip())
        message["annotations"] = [
            annotation(Citation(one.start - lead, one.end - lead, one.source)) for one in done.citations
        ]
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        body: dict[str, object] = {
            "id": head.id,
            "object": "chat.completion",
            "created": head.created,
            "model": head.model,
            "system_fingerprint": None,
            "choices": [choice],
            "usage": usage(closing.query_characters, content),
        }
        return _encode(body | {"sonde": closing.sonde} if closing.sonde else body)
