"""Chat through Responses by the real SDK, over a socket, in both modes (openai-compat §§3, 6)."""

from __future__ import annotations

import time
from typing import Any

import httpx
import openai
import pytest

from portal.wire.sse import SseDecoder
from tests.proxy.responding import checked
from tests.running_server import RunningServer
from tests.sdk.conftest import new_key
from tests.sdk.test_chat import client_of, credits_of

pytestmark = pytest.mark.slow
ASK: Any = {"model": "gpt", "input": "Why is the sky blue?"}
LONG = "Why? [sandbox:duration=30] [sandbox:pieces=300]"


def ended(client: openai.OpenAI, id: str) -> Any:
    until = time.monotonic() + 60
    while (response := client.responses.retrieve(id)).status in ("queued", "in_progress"):
        assert time.monotonic() < until, f"it is still {response.status}"
        time.sleep(0.1)
    return response


def test_it_creates_and_retrieves(by_openai: openai.OpenAI) -> None:
    response = by_openai.responses.create(**ASK)

    assert response.status == "completed"
    assert response.output_text
    assert response.usage is not None
    assert by_openai.responses.retrieve(response.id).output_text == response.output_text


def test_it_streams_to_a_raw_loop(by_openai: openai.OpenAI) -> None:
    events = list(by_openai.responses.create(**ASK, stream=True))

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    last = events[-1]
    assert last.type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == last.response.output_text
    assert by_openai.responses.retrieve(last.response.id).output_text == text


def test_it_serves_the_streaming_helper(by_openai: openai.OpenAI) -> None:
    with by_openai.responses.stream(**ASK) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()

    assert {"response.web_search_call.completed", "response.output_text.annotation.added"} <= kinds
    assert final.output_text


def test_it_answers_in_the_background(by_openai: openai.OpenAI) -> None:
    queued = by_openai.responses.create(**ASK, background=True)
    assert (queued.status, queued.background) == ("queued", True)

    response = ended(by_openai, queued.id)

    assert response.status == "completed"
    assert response.output_text


def test_it_streams_what_is_made_in_the_background(server: RunningServer, by_openai: openai.OpenAI) -> None:
    events: list[Any] = list(by_openai.responses.create(**ASK, background=True, stream=True))
    id = events[0].response.id

    with by_openai.responses.retrieve(id, stream=True, starting_after=4) as again:
        rest = list(again)
    with by_openai.responses.stream(response_id=id, starting_after=4) as helper:
        helped = [event.sequence_number for event in helper]

    assert [event.model_dump() for event in rest] == [event.model_dump() for event in events[5:]]
    assert helped
    assert all(number > 4 for number in helped)
    raw = httpx.get(
        f"{server.url}/v1/responses/{id}?stream=true",
        headers={"Authorization": f"Bearer {server.api_key}"},
    )
    assert len(checked(raw.content)) == len(events)
    assert len(SseDecoder().feed(raw.content)) == len(events)


def test_it_cancels_in_the_background(server: RunningServer) -> None:
    key = new_key(server, credits=5)
    client = client_of(server, key)
    queued = client.responses.create(model="gpt", input=LONG, background=True)
    with client.responses.retrieve(queued.id, stream=True) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                break

    cancelled = client.responses.cancel(queued.id)

    assert cancelled.status == "cancelled"
    assert client.responses.cancel(queued.id) == cancelled
    assert credits_of(server, key) == {"balance": 4.9, "reserved": 0}
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(client.responses.create(**ASK).id)


def test_it_chains(by_openai: openai.OpenAI) -> None:
    first = by_openai.responses.create(model="gpt", input="My name is Ada.")

    second = by_openai.responses.create(
        model="gpt", input="Who am I? [sandbox:recall]", previous_response_id=first.id
    )

    assert second.previous_response_id == first.id
    assert "Ada" in second.output_text


def test_it_goes_on_in_a_conversation(by_openai: openai.OpenAI) -> None:
    conversation = by_openai.conversations.create(
        metadata={"topic": "names"}, items=[{"type": "message", "role": "user", "content": "My name is Ada."}]
    )

    response = by_openai.responses.create(**ASK, conversation=conversation.id)

    assert response.conversation is not None
    assert response.conversation.id == conversation.id
    items = list(by_openai.conversations.items.list(conversation.id, limit=1, order="asc"))
    assert len(items) == 2 + len(response.output)
    by_openai.conversations.items.delete(items[0].id or "", conversation_id=conversation.id)
    assert by_openai.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError):
        by_openai.conversations.retrieve(conversation.id)


def test_it_pages_input_items(by_openai: openai.OpenAI) -> None:
    parts: Any = [{"role": "user", "content": f"Part {number}"} for number in range(5)]
    response = by_openai.responses.create(model="gpt", input=parts)

    items: list[Any] = list(by_openai.responses.input_items.list(response.id, limit=2))

    assert [item.content[0].text for item in items] == [f"Part {number}" for number in (4, 3, 2, 1, 0)]


def test_it_deletes(by_openai: openai.OpenAI) -> None:
    response = by_openai.responses.create(**ASK)

    by_openai.responses.delete(response.id)

    for gone in (by_openai.responses.retrieve, by_openai.responses.delete, by_openai.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            gone(response.id)


def test_it_opens_the_ids_of_research_and_chat_at_one_door(by_openai: openai.OpenAI) -> None:
    chat = by_openai.responses.create(**ASK)
    research = by_openai.responses.create(model="sonar-deep-research", input="Why is the sky blue?")

    assert by_openai.responses.retrieve(chat.id).id == chat.id
    assert by_openai.responses.retrieve(research.id).id == research.id


def test_it_raises_each_error_as_its_class(server: RunningServer, by_openai: openai.OpenAI) -> None:
    client = by_openai.with_options(max_retries=0)
    with pytest.raises(openai.BadRequestError) as bad:
        client.responses.create(**ASK, temperature=0.5)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.responses.create(**ASK, previous_response_id="resp_" + "0" * 32)
    assert unknown.value.param == "previous_response_id"
    with pytest.raises(openai.InternalServerError) as broken:
        client.responses.create(model="gpt", input="Why? [sandbox:web.invalid]")
    assert broken.value.status_code == 502
    poor = client_of(server, new_key(server, credits=0))
    with pytest.raises(openai.RateLimitError) as penniless:
        poor.responses.create(**ASK)
    assert penniless.value.code == "insufficient_quota"
