"""People with a key who ask through `/v1/responses`, in this process; a worker answers when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx

from portal.wire.ids import parse_response_id
from portal.wire.sse import SseDecoder
from proxy.models.responses import ChatResponse
from proxy.protocol.responses_stream import Event
from proxy.services import background
from tests.proxy.chatting import Chatter
from tests.proxy.protocol.response_events import check

PATH = "/v1/responses"
Json = dict[str, Any]


def body(said: str | Sequence[Json] = "Why is the sky blue?", **fields: Any) -> Json:
    return {"model": "gpt", "input": said, **fields}


def ask(who: Chatter, said: str | Sequence[Json] = "Why is the sky blue?", **fields: Any) -> httpx.Response:
    return who.client.post(PATH, json=body(said, **fields))


def answer(who: Chatter, said: str | Sequence[Json] = "Why is the sky blue?", **fields: Any) -> Json:
    """The object of a plain answer."""
    got = ask(who, said, **fields)
    assert got.status_code == 200, got.text
    whole: Json = got.json()
    return whole


def in_background(
    who: Chatter, said: str | Sequence[Json] = "Why is the sky blue?", **fields: Any
) -> ChatResponse:
    """Let in, and not yet answered."""
    return row_of(answer(who, said, background=True, **fields))


def work(row: ChatResponse) -> ChatResponse:
    """A worker answers it."""
    background.answer_response(row.pk)
    return fresh(row)


def row_of(whole: Json) -> ChatResponse:
    found = parse_response_id(whole["id"])
    assert found is not None
    return ChatResponse.objects.get(pk=found)


def fresh(row: ChatResponse) -> ChatResponse:
    return ChatResponse.objects.get(pk=row.pk)


def get(who: Chatter, id: str, more: str = "", **query: Any) -> httpx.Response:
    return who.client.get(f"{PATH}/{id}{more}", params=query)


def replay(who: Chatter, id: str, after: int | None = None) -> bytes:
    query = {} if after is None else {"starting_after": str(after)}
    got = get(who, id, stream="true", **query)
    assert got.status_code == 200, got.text
    return got.content


def public(row: ChatResponse | UUID) -> str:
    return f"resp_{(row if isinstance(row, UUID) else row.pk).hex}"


def checked(stream: bytes) -> list[Json]:
    """The payloads of a whole stream, once every rule of openai-compat §6 holds."""
    records = SseDecoder().feed(stream)
    events = [Event(number, one.event, one.data) for number, one in enumerate(records)]
    return check(events)


def text_of(whole: Json) -> str:
    return "".join(
        part["text"] for item in whole["output"] if item["type"] == "message" for part in item["content"]
    )


def records(stream: bytes) -> list[bytes]:
    """Each with the blank line behind it."""
    return [record + b"\n\n" for record in stream.split(b"\n\n") if record]
