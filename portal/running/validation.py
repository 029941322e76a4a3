"""Asks a running server the few things that show whether its clients will get along with it.

    health → models → errors → chat → stream → Responses, plain and streamed

Every answer goes through the checks of `portal.wire.conformance`. Four short questions are asked of a
model: they cost what they cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from portal.http import AsyncClient, HTTPError, InvalidURL, Timeout, async_client
from portal.wire.conformance.chat import CHAT, ChatBody
from portal.wire.conformance.chat_stream import STREAM as CHAT_STREAM
from portal.wire.conformance.chat_stream import ChatStream
from portal.wire.conformance.checks import Fault, Result, Suite, unless
from portal.wire.conformance.exchange import ERROR, HTTP, Exchange, Kind
from portal.wire.conformance.responses import RESPONSE, ResponseBody
from portal.wire.conformance.responses_stream import STREAM as RESPONSE_STREAM
from portal.wire.conformance.responses_stream import ResponseStream
from portal.wire.conformance.service import HEALTH, MODELS
from portal.wire.sse import SseTooLong

QUESTION = "In one short sentence: why is the sky blue?"
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 180.0
"""How long a server may say nothing at all."""
LARGEST = 16 * 1024 * 1024
"""Bytes of an answer that are read."""
WRONG_KEY = "sonde_aaaaaaaaaa_" + "x" * 43

# What a question must lead to, besides the right form.
SAYS_CHAT: Suite[ChatBody] = Suite()
SAYS_STREAM: Suite[ChatStream] = Suite()
SAYS_RESPONSE: Suite[ResponseBody] = Suite()
SAYS_EVENTS: Suite[ResponseStream] = Suite()


@SAYS_CHAT.check("V2", "it says something, and stops by itself")
def _v2(chat: ChatBody) -> Fault:
    return unless(chat.messages[0]["content"].strip() and chat.choices[0]["finish_reason"] == "stop")


@SAYS_STREAM.check("V3", "it says something, and stops by itself")
def _v3(stream: ChatStream) -> Fault:
    reasons = [choice["finish_reason"] for _, choice in stream.choices()]
    return unless(stream.content.strip() and "stop" in reasons)


@SAYS_RESPONSE.check("V4", "it is completed, with a text")
def _v4(response: ResponseBody) -> Fault:
    return unless(response.status == "completed" and any(part["text"].strip() for part in response.parts()))


@SAYS_EVENTS.check("V5", "it is completed, with a text")
def _v5(stream: ResponseStream) -> Fault:
    said = stream.joined("output_text", "content_index").values()
    return unless(stream.last["type"] == "response.completed" and "".join(said).strip())


class TooLarge(Exception):
    """The answer has more than `LARGEST` bytes."""


@dataclass(frozen=True, slots=True)
class Step:
    """What was asked, and how each check of the answer came out."""

    name: str
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer. `gaps` are the seconds between two reads of it."""

    exchange: Exchange
    gaps: Sequence[float]

    @property
    def body(self) -> Any:
        """Decoded; None for what is no JSON."""
        try:
            return json.loads(self.exchange.body)
        except ValueError:
            return None


@dataclass(slots=True)
class Validation:
    """One round of questions. `model` "" takes the server's `auto`, or else its first."""

    url: str
    key: str
    model: str = ""
    _client: AsyncClient = field(init=False)

    async def steps(self) -> AsyncIterator[Step]:
        """One step at a time, as its answer comes. A server that cannot be reached fails them all."""
        timeout = Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        async with async_client(self.url, timeout=timeout) as self._client:
            for name, ask in (
                ("health: GET /health", self._health),
                ("models: GET /v1/models", self._models),
                ("errors: a wrong key, and no messages", self._errors),
                ("chat: POST /v1/chat/completions", self._chat),
                ("stream: the same with stream", self._chat_stream),
                ("responses: POST, GET, DELETE /v1/responses", self._response),
                ("responses stream: the same with stream", self._response_stream),
            ):
                yield Step(name, await self._tried(ask))

    async def _tried(self, ask: Any) -> tuple[Result, ...]:
        try:
            results: list[Result] = await ask()
        except TooLarge:
            return (_told("it ends", f"it has more than {LARGEST:,} bytes"),)
        except SseTooLong:
            return (_told("it is an event stream", "a record has no end"),)
        except (HTTPError, InvalidURL) as error:
            return (_told("it can be reached", f"{type(error).__name__} {error}".strip()),)
        return tuple(results)

    async def _health(self) -> list[Result]:
        heard = await self._ask("GET", "/health", key="")
        return [*_answered(heard), *HEALTH.run(heard.body)]

    async def _models(self) -> list[Result]:
        heard = await self._ask("GET", "/v1/models")
        listed = heard.body.get("data") if isinstance(heard.body, dict) else None
        names = [one.get("id") for one in listed or [] if isinstance(one, dict)]
        self.model = self.model or ("auto" if "auto" in names else next(iter(names), None) or "gpt")
        return [*_answered(heard), *MODELS.run(heard.body)]

    async def _errors(self) -> list[Result]:
        stranger = await self._ask("POST", "/v1/chat/completions", self._asking(), key=WRONG_KEY)
        empty = await self._ask("POST", "/v1/chat/completions", {"model": self.model, "messages": []})
        return [*_refused(stranger, 401), *_refused(empty, 400)]

    async def _chat(self) -> list[Result]:
        heard = await self._ask("POST", "/v1/chat/completions", self._asking())
        chat = ChatBody(heard.body, time.time())
        return [*_answered(heard), *_judged(heard, (*CHAT.run(chat), *SAYS_CHAT.run(chat)))]

    async def _chat_stream(self) -> list[Result]:
        body = self._asking() | {"stream": True, "stream_options": {"include_usage": True}}
        heard = await self._ask("POST", "/v1/chat/completions", body, kind="stream")
        stream = ChatStream.of(heard.exchange.body, include_usage=True)
        return [*_answered(heard), *_judged(heard, (*CHAT_STREAM.run(stream), *SAYS_STREAM.run(stream)))]

    async def _response(self) -> list[Result]:
        """Stored, retrieved, deleted, and not found any more."""
        request = {"model": self.model, "input": QUESTION, "metadata": {"checked": "yes"}}
        heard = await self._ask("POST", "/v1/responses", request)
        body = heard.body
        if heard.exchange.status != 200 or not isinstance(body, dict):
            return _answered(heard)
        path = f"/v1/responses/{body.get('id')}"
        kept = await self._ask("GET", path)
        await self._ask("DELETE", path)
        gone = await self._ask("GET", path)
        response = ResponseBody(kept.body, request=request, told=body, after_delete=gone.exchange.status)
        results = (*RESPONSE.run(response), *SAYS_RESPONSE.run(response))
        return [*_answered(heard), *results, *_refused(gone, 404)]

    async def _response_stream(self) -> list[Result]:
        request = {"model": self.model, "input": QUESTION, "stream": True, "store": False}
        heard = await self._ask("POST", "/v1/responses", request, kind="stream")
        stream = ResponseStream.of(heard.exchange.body, gaps=heard.gaps)
        results = (*RESPONSE_STREAM.run(stream), *SAYS_EVENTS.run(stream))
        return [*_answered(heard), *_judged(heard, results)]

    def _asking(self) -> dict[str, Any]:
        return {"model": self.model, "messages": [{"role": "user", "content": QUESTION}]}

    async def _ask(
        self, method: str, path: str, body: Any = None, *, kind: Kind = "json", key: str | None = None
    ) -> Heard:
        """The whole answer. `key` is the caller's own where it is None, none at all where it is empty."""
        key = self.key if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        asked_at = time.monotonic()
        pieces, times = bytearray(), [asked_at]
        async with self._client.stream(method, path, json=body, headers=headers) as answer:
            async for piece in answer.aiter_bytes():
                pieces += piece
                times.append(time.monotonic())
                if len(pieces) > LARGEST:
                    raise TooLarge
        known = None if body is None else frozenset(body)
        told = {name.lower(): value for name, value in answer.headers.items()}
        gaps = [after - before for before, after in pairwise(times)]
        return Heard(Exchange(answer.status_code, told, bytes(pieces), kind, known), gaps)


def _told(title: str, fault: str = "") -> Result:
    return Result("-", title, "FAIL" if fault else "PASS", fault)


def _answered(heard: Heard) -> list[Result]:
    """How the answer came, which should be a good one."""
    status = heard.exchange.status
    fault = "" if status == 200 else f"status {status}: {_message(heard)}"
    return [_told("it answers with 200", fault), *HTTP.run(heard.exchange)]


def _judged(heard: Heard, results: Sequence[Result]) -> Sequence[Result]:
    """What an error says is no chat."""
    return results if heard.exchange.status == 200 else ()


def _refused(heard: Heard, status: int) -> list[Result]:
    found = heard.exchange.status
    fault = "" if found == status else f"status {found}"
    results = [_told(f"it answers with {status}", fault), *HTTP.run(heard.exchange)]
    return [*results, *ERROR.run(heard.exchange)] if found == status else results


def _message(heard: Heard) -> str:
    body = heard.body
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message[:300] if isinstance(message, str) else "no message"
