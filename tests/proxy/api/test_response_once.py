"""One idempotency key is one response and one charge, whichever way it is asked for, and whichever engine."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from portal.wire.errors import Conflict
from proxy.models.catalog import ChatModel
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse
from proxy.protocol.response_once import Once
from proxy.protocol.responses import parse_responses
from proxy.services.response_once import answer_once
from proxy.services.responses import Queued, Terms, open_response, queue_response
from research.api.front import ELSEWHERE
from research.models.presets import Preset
from research.models.runs import Door, Run
from research.protocol.options import RunRequest
from research.services.start import start_run
from tests.portal.people import all_at_once
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of
from tests.proxy.responding import PATH, body, replay, row_of, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox", "pool")]
REUSED = (422, "invalid_request_error", "idempotency_key", "idempotency_key_reused")


@pytest.fixture
def pool() -> None:
    account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def ask(who: Chatter, said: str = "Why?", key: str = "k", **fields: Any) -> httpx.Response:
    return who.client.post(PATH, json=body(said, **fields), headers={"Idempotency-Key": key})


@pytest.mark.parametrize("fields", [{}, {"background": True}, {"metadata": {"a": "b"}}])
def test_it_is_made_and_charged_once(who: Chatter, fields: dict[str, Any]) -> None:
    first, again = ask(who, **fields), ask(who, **fields)

    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert ChatTurn.objects.count() == ChatResponse.objects.count() == 1
    assert who.spent in ("0.1 0", "0 0.1")


def test_it_is_the_same_in_the_body_and_with_members_that_have_no_effect(who: Chatter) -> None:
    made = who.client.post(PATH, json=body("Why?", idempotency_key="k", user="a", metadata={"a": "b"})).json()

    assert ask(who).json() == made
    both = who.client.post(PATH, json=body(idempotency_key="k"), headers={"Idempotency-Key": "l"})
    assert error_of(both)[:3] == (400, "invalid_request_error", "idempotency_key")


def test_it_is_told_as_it_is_now(who: Chatter) -> None:
    made = ask(who, background=True).json()
    work(row_of(made))

    assert ask(who, background=True).json()["status"] == "completed"
    assert ask(who, background=True, stream=True).content == replay(who, made["id"])


def test_a_stream_is_told_again_to_the_byte(who: Chatter) -> None:
    assert ask(who, stream=True).content == ask(who, stream=True).content
    assert who.spent == "0.1 0"


def test_a_plain_answer_is_no_stream_the_second_time(who: Chatter) -> None:
    ask(who)

    assert error_of(ask(who, stream=True))[:3] == (400, "invalid_request_error", "stream")


@pytest.mark.parametrize(
    "other", [{"said": "How?"}, {"model": "opus"}, {"background": True}, {"instructions": "Be brief."}]
)
def test_another_request_needs_another_key(who: Chatter, other: dict[str, Any]) -> None:
    ask(who)

    assert error_of(ask(who, **other)) == REUSED
    assert who.spent == "0.1 0"


def test_keys_are_each_persons_own_and_free_again_once_deleted(who: Chatter) -> None:
    first = ask(who).json()["id"]

    assert ask(chatter(), "How?").json()["id"] != first
    who.client.request("DELETE", f"{PATH}/{first}")
    assert ask(who, "How?").json()["id"] != first


def test_what_is_not_kept_takes_no_key(who: Chatter) -> None:
    assert error_of(ask(who, store=False))[:3] == (400, "invalid_request_error", "idempotency_key")
    assert who.spent == "0 0"


def test_research_and_chat_share_their_keys(who: Chatter) -> None:
    ask(who, key="chat")
    started = ask(who, key="run", preset="2m").json()["id"]

    assert error_of(ask(who, key="chat", preset="2m")) == REUSED
    assert error_of(ask(who, key="run")) == REUSED
    who.client.request("DELETE", f"{PATH}/{started}")
    assert error_of(ask(who, key="run")) == REUSED
    assert ChatTurn.objects.count() == 1
    assert who.spent == "0.1 0"


@pytest.mark.parametrize("make", [open_response, queue_response])
def test_the_loser_of_a_race_leaves_nothing_behind(who: Chatter, make: Any) -> None:
    request = parse_responses(body("Why?", background=make is queue_response), default_model="gpt")
    once = Once("k", "0" * 64)
    principal = who.principal

    def late() -> Queued:
        """The other one comes between the look and the writing."""
        queue_response(principal, request, Terms(once))
        made: Queued = make(principal, request, Terms(once))
        return made

    found = answer_once(principal, once, late)

    assert isinstance(found, ChatResponse)
    assert ChatTurn.objects.count() == 1
    assert who.spent == "0 0.1"
    with pytest.raises(Conflict, match=f"{found.pk.hex}"):
        make(principal, request, Terms(once))


def test_what_is_free_is_research_or_chat_under_one_key_as_well(who: Chatter) -> None:
    Preset.objects.update(price=0)
    ChatModel.objects.update(price=0)
    principal = who.principal
    request = parse_responses(body("Why?", background=True), default_model="gpt")

    def ask_either(place: int) -> None:
        """Two of each key: one is a chat, the other is research."""
        key, kind = divmod(place, 2)
        if kind:
            start_run(principal, RunRequest("Why?", preset="2m", idempotency_key=f"k{key}"), Door.REST)
        else:
            queue_response(principal, request, Terms(Once(f"k{key}", "0" * 64), ELSEWHERE))

    told = all_at_once(8, ask_either)

    made = [
        *Run.objects.values_list("idempotency_key", flat=True),
        *ChatResponse.objects.values_list("idempotency_key", flat=True),
    ]
    assert sorted(map(str, made)) == ["k0", "k1", "k2", "k3"]
    assert [type(one) for one in told if one is not None] == [Conflict] * 4
