"""Responses that go on: from an earlier one, in a conversation, and what was asked there."""

from __future__ import annotations

import pytest

from proxy.models.accounts import WebAccount
from proxy.models.responses import ApiConversation, ChatResponse
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, say
from tests.proxy.responding import (
    answer,
    ask,
    get,
    public,
    row_of,
    text_of,
)
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def test_it_goes_on_from_an_earlier_response(who: Chatter) -> None:
    first = answer(who, f"One? {say('The first.')}")

    second = answer(who, "Two? [sandbox:recall]", previous_response_id=first["id"])

    assert second["previous_response_id"] == first["id"]
    assert "One?" in text_of(second)
    assert [role for role, _ in row_of(second).said] == ["user", "assistant", "user", "assistant"]


def test_it_takes_no_more_along_than_is_kept(who: Chatter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not the prompt has all of it: each response keeps what it goes on from."""
    monkeypatch.setattr("proxy.protocol.response_input.LONGEST_KEPT", 1_300)
    unsaid = [{"role": "assistant", "content": "o" * 200}] * 3 + [{"role": "user", "content": say("Short.")}]
    first = answer(who, unsaid)

    refused = ask(who, unsaid, previous_response_id=first["id"])

    assert error_of(refused) == (400, "invalid_request_error", "input", "context_length_exceeded")
    assert ask(who, "Two?", previous_response_id=first["id"]).status_code == 200
    assert ask(who, unsaid, previous_response_id=first["id"], store=False).status_code == 200


def test_it_takes_no_instructions_along_a_chain(who: Chatter) -> None:
    first = answer(who, f"One? {say('The first.')}", instructions="Reply in English only")

    second = answer(who, "Two?", previous_response_id=first["id"])

    assert [role for role, _ in row_of(second).said] == ["user", "assistant", "user", "assistant"]


def test_it_goes_on_from_nothing_unknown_foreign_or_unfinished(who: Chatter) -> None:
    foreign = answer(chatter())["id"]
    ask(who, "Why? [sandbox:web.invalid]")
    failed = public(ChatResponse.objects.get(status="failed"))

    unknown = ask(who, previous_response_id=f"resp_{'0' * 32}")
    assert error_of(unknown)[::2] == (404, "previous_response_id")
    assert ask(who, previous_response_id=foreign).content == unknown.content
    assert error_of(ask(who, previous_response_id=failed))[::2] == (400, "previous_response_id")
    assert error_of(ask(who, previous_response_id="resp_x"))[::2] == (404, "previous_response_id")


def test_it_goes_on_in_a_conversation(who: Chatter) -> None:
    first = answer(who, f"One? {say('The first.')}", conversation="mine")

    second = answer(who, "Two? [sandbox:recall]", conversation={"id": "mine"})

    assert first["conversation"] == {"id": "mine"}
    assert (first["previous_response_id"], second["previous_response_id"]) == (None, first["id"])
    assert "One?" in text_of(second)


def test_it_keeps_conversations_of_one_name_apart(who: Chatter) -> None:
    other = chatter()
    answer(other, "Secret?", conversation="ours")

    mine = answer(who, "Mine?", conversation="ours")

    assert mine["previous_response_id"] is None
    assert ApiConversation.objects.filter(name="ours").count() == 2


def test_it_adds_nothing_to_a_conversation_that_is_not_stored(who: Chatter) -> None:
    first = answer(who, "One?", conversation="mine")

    second = answer(who, "Two? [sandbox:recall]", conversation="mine", store=False)

    conversation = ApiConversation.objects.get()
    assert second["previous_response_id"] == first["id"]
    assert conversation.last_response == row_of(first).pk
    assert conversation.items.count() == 1 + len(first["output"])


def test_it_lists_what_was_asked(who: Chatter) -> None:
    items = [{"role": "user", "content": f"Part {number}"} for number in range(5)]
    id = answer(who, items)["id"]

    page = get(who, id, "/input_items").json()
    assert page["object"] == "list"
    assert [item["content"][0]["text"] for item in page["data"]] == [f"Part {n}" for n in (4, 3, 2, 1, 0)]
    assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
    first = get(who, id, "/input_items", limit=2, order="asc").json()
    assert (first["has_more"], len(first["data"])) == (True, 2)
    rest = get(who, id, "/input_items", order="asc", after=first["last_id"]).json()
    assert [item["content"][0]["text"] for item in rest["data"]] == ["Part 2", "Part 3", "Part 4"]
    assert rest["has_more"] is False


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "msg_unknown"}, "after"),
        ({"before": "msg_unknown"}, "before"),
    ],
)
def test_it_names_what_a_page_is_asked_wrongly(who: Chatter, query: dict[str, str], param: str) -> None:
    id = answer(who)["id"]

    assert error_of(get(who, id, "/input_items", **query)) == (400, "invalid_request_error", param, None)
