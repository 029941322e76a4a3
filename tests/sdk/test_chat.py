"""Chat Completions by the real SDK, over a socket, in both modes (openai-compat §§1-2, 6)."""

from __future__ import annotations

import time
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from portal.wire.conformance.chat import CHAT, ChatBody
from portal.wire.conformance.chat_stream import STREAM, ChatStream
from portal.wire.conformance.checks import faults
from tests.proxy.chatting import events
from tests.running_server import RunningServer
from tests.sdk.conftest import new_key

pytestmark = pytest.mark.slow
CHUNK: TypeAdapter[ChatCompletionChunk] = TypeAdapter(ChatCompletionChunk)
WHOLE: TypeAdapter[ChatCompletion] = TypeAdapter(ChatCompletion)
ASK: Any = {"model": "gpt", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}


def asking(question: str) -> Any:
    return {"model": "gpt", "messages": [{"role": "user", "content": question}]}


def client_of(server: RunningServer, key: str) -> openai.OpenAI:
    return openai.OpenAI(api_key=key, base_url=f"{server.url}/v1", max_retries=0)


def credits_of(server: RunningServer, key: str) -> dict[str, float]:
    answer = httpx.get(f"{server.url}/api/account", headers={"Authorization": f"Bearer {key}"})
    found: dict[str, float] = answer.json()["credits"]
    return found


def test_it_completes(by_openai: openai.OpenAI) -> None:
    raw = by_openai.chat.completions.with_raw_response.create(**ASK)

    WHOLE.validate_json(raw.http_response.content, strict=True)
    assert faults(CHAT.run(ChatBody(raw.http_response.json(), time.time()))) == []
    answer = raw.parse()
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.annotations
    assert answer.usage is not None
    assert answer._request_id
    assert raw.headers["x-sonde-sandbox"] == "true"


def test_it_streams_chunks_that_are_valid_to_the_letter(server: RunningServer) -> None:
    answer = httpx.post(
        f"{server.url}/v1/chat/completions",
        json=ASK | {"stream": True, "stream_options": {"include_usage": True}},
        headers={"Authorization": f"Bearer {server.api_key}"},
        timeout=60,
    )

    assert faults(STREAM.run(ChatStream.of(answer.content, include_usage=True))) == []
    *chunks, _ = events(answer.content)
    for chunk in chunks:
        CHUNK.validate_python(chunk, strict=True)
    assert len(chunks) > 5


def test_it_streams_to_the_sdk(by_openai: openai.OpenAI) -> None:
    with by_openai.chat.completions.create(
        **ASK, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)

    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert any(getattr(chunk.choices[0].delta, "reasoning_content", "") for chunk in chunks[:-1])
    assert chunks[-1].usage is not None


def test_it_serves_the_streaming_helper(by_openai: openai.OpenAI) -> None:
    with by_openai.chat.completions.stream(**ASK) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()

    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].finish_reason == "stop"
    assert final.choices[0].message.content


def test_it_lists_and_finds_models(by_openai: openai.OpenAI) -> None:
    shown = [model.id for model in by_openai.models.list()]

    assert by_openai.models.retrieve(shown[-1]).id == shown[-1]
    with pytest.raises(openai.NotFoundError):
        by_openai.models.retrieve("nobody/nothing")


def test_it_raises_each_error_as_its_class(server: RunningServer, by_openai: openai.OpenAI) -> None:
    client = by_openai.with_options(max_retries=0)
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(**ASK, tools=[{"type": "function", "function": {"name": "two words"}}])
    assert bad.value.param == "tools"
    with pytest.raises(openai.BadRequestError) as unknown:
        client.chat.completions.create(**ASK | {"model": "nope"})
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.PermissionDeniedError):
        client.chat.completions.create(**ASK | {"model": "haiku"})
    with pytest.raises(openai.AuthenticationError):
        client_of(server, "sonde_aaaaaaaaaa_" + "x" * 43).chat.completions.create(**ASK)
    with pytest.raises(openai.InternalServerError) as broken:
        client.chat.completions.create(**asking("Why? [sandbox:web.invalid]"), stream=True)
    assert broken.value.status_code == 502


def test_it_refuses_the_penniless_without_a_retry(server: RunningServer) -> None:
    poor = openai.OpenAI(api_key=new_key(server, credits=0), base_url=f"{server.url}/v1")

    with pytest.raises(openai.RateLimitError) as refused:
        poor.chat.completions.create(**ASK)

    assert refused.value.code == "insufficient_quota"
    assert refused.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_it_raises_in_the_middle_of_a_stream_that_breaks(by_openai: openai.OpenAI) -> None:
    question = asking("Why? [sandbox:cut-stream=12] [sandbox:pieces=12]")
    stream = by_openai.chat.completions.create(**question, stream=True)
    assert next(stream).choices

    with pytest.raises(openai.APIError) as broken:
        list(stream)

    assert broken.value.type == "upstream_error"


def test_it_stops_paying_attention_when_the_sdk_closes_the_stream(server: RunningServer) -> None:
    key = new_key(server, credits=5)
    question = "Why do readers leave? [sandbox:duration=30] [sandbox:pieces=300]"
    with client_of(server, key).chat.completions.create(**asking(question), stream=True) as stream:
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break

    deadline = time.monotonic() + 2
    while credits_of(server, key) != {"balance": 4.9, "reserved": 0}:
        assert time.monotonic() < deadline, credits_of(server, key)
        time.sleep(0.05)
    mine = [
        row
        for row in httpx.get(f"{server.sandbox_url}/_sandbox/web/requests").json()["requests"]
        if "Why do readers leave?" in row["body"]
    ]
    assert [row["ending"] for row in mine] == ["left"]
