"""`/v1/conversations…`: made, filled, read, answered in, deleted."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from proxy.models.accounts import WebAccount
from proxy.models.responses import ApiConversation
from proxy.services import conversations
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, say
from tests.proxy.responding import answer, text_of
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/v1/conversations"


@pytest.fixture
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def message(text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text, **more}


def make(who: Chatter, *texts: str, **more: Any) -> str:
    made = who.client.post(PATH, json={"items": [message(text) for text in texts], **more})
    assert made.status_code == 200, made.text
    id: str = made.json()["id"]
    return id


def items(who: Chatter, id: str, **query: str) -> dict[str, Any]:
    page: dict[str, Any] = who.client.get(f"{PATH}/{id}/items", params=query).json()
    return page


def texts(page: dict[str, Any]) -> list[str]:
    return [item["content"][0]["text"] for item in page["data"]]


def delete(who: Chatter, path: str) -> httpx.Response:
    return who.client.request("DELETE", path)


def test_it_makes_one_of_nothing_at_all(who: Chatter) -> None:
    made = who.client.post(PATH).json()

    assert made["id"].startswith("conv_")
    assert (made["object"], made["metadata"]) == ("conversation", {})
    assert who.client.get(f"{PATH}/{made['id']}").json() == made
    assert items(who, made["id"]) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_it_takes_the_longest_ids_that_callers_may_give(who: Chatter, pool: WebAccount) -> None:
    id = make(who)
    longest = ["a" * 128, "b" * 128]

    added = who.client.post(f"{PATH}/{id}/items", json={"items": [message("One", id=longest[0])]})
    answered = answer(who, [message("Why?", id=longest[1])], conversation=id)

    assert added.status_code == 200
    assert answered["status"] == "completed"
    assert [item["id"] for item in items(who, id, order="asc")["data"]][:2] == longest


def test_it_replaces_what_is_pinned_to_it(who: Chatter) -> None:
    id = make(who, metadata={"topic": "sky"})

    updated = who.client.post(f"{PATH}/{id}", json={"metadata": {"topic": "sea"}})

    assert updated.json()["metadata"] == {"topic": "sea"}
    assert who.client.get(f"{PATH}/{id}").json() == updated.json()
    assert error_of(who.client.post(f"{PATH}/{id}", json={}))[2] == "metadata"


def test_it_pages_its_items(who: Chatter) -> None:
    id = make(who, *"abcde")

    assert texts(items(who, id)) == list("edcba")
    first = items(who, id, limit="2", order="asc")
    assert (texts(first), first["has_more"], first["last_id"]) == (["a", "b"], True, first["data"][1]["id"])
    rest = items(who, id, order="asc", after=first["last_id"])
    assert (texts(rest), rest["has_more"]) == (["c", "d", "e"], False)


def test_it_takes_and_gives_single_items(who: Chatter) -> None:
    id = make(who)

    [added] = who.client.post(f"{PATH}/{id}/items", json={"items": [message("Hi", id="msg_mine")]}).json()[
        "data"
    ]

    assert added["id"] == "msg_mine"
    assert who.client.get(f"{PATH}/{id}/items/msg_mine").json() == added
    assert delete(who, f"{PATH}/{id}/items/msg_mine").json()["object"] == "conversation"
    assert who.client.get(f"{PATH}/{id}/items/msg_mine").status_code == 404
    assert items(who, id)["data"] == []


def test_it_takes_no_item_twice(who: Chatter) -> None:
    id = make(who)
    new = {"items": [message("Hi", id="msg_mine")]}
    who.client.post(f"{PATH}/{id}/items", json=new)

    assert error_of(who.client.post(f"{PATH}/{id}/items", json=new))[::2] == (400, "items")
    assert len(items(who, id)["data"]) == 1


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"items": "x"}, "items"),
        ({"items": [message("x")] * 21}, "items"),
        ({"items": [{"type": "mystery"}]}, "items"),
        ({"items": [message([{"type": "input_image", "image_url": "data:image/png;base64,AA=="}])]}, "items"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": "x"}, "metadata"),
    ],
)
def test_it_names_what_is_wrong(who: Chatter, body: dict[str, Any], param: str) -> None:
    assert error_of(who.client.post(PATH, json=body))[::2] == (400, param)
    assert not ApiConversation.objects.exists()


def test_it_takes_no_more_items_than_any_prompt_holds(who: Chatter) -> None:
    id = make(who)
    found = conversations.find_conversation(who.principal, id)
    for _ in range(conversations.MOST_ITEMS // 20):
        conversations.add_items(found, [message("x")] * 20)

    assert error_of(who.client.post(f"{PATH}/{id}/items", json={"items": [message("y")]}))[::2] == (
        400,
        "items",
    )


def test_it_answers_a_stranger_as_for_what_does_not_exist(who: Chatter) -> None:
    mine, other = make(who, "secret"), chatter()

    for method, more in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/items"),
        ("GET", "/items/msg_x"),
        ("DELETE", "/items/msg_x"),
    ):
        foreign = other.client.request(method, f"{PATH}/{mine}{more}")
        unknown = other.client.request(method, f"{PATH}/conv_unknown{more}")
        assert (foreign.status_code, foreign.content) == (404, unknown.content)
    assert texts(items(who, mine)) == ["secret"]


def test_it_is_gone_once_it_is_deleted(who: Chatter) -> None:
    id = make(who, "a")

    assert delete(who, f"{PATH}/{id}").json() == {"id": id, "object": "conversation.deleted", "deleted": True}
    assert who.client.get(f"{PATH}/{id}").status_code == 404


@pytest.mark.usefixtures("pool")
def test_it_is_what_a_response_goes_on_from_and_adds_to(who: Chatter, sandbox: SandboxServer) -> None:
    id = make(who, "My name is Ada.")

    first = answer(who, f"Hello? {say('Hello, Ada.')}", conversation=id)
    listed = items(who, id, order="asc")

    assert "My name is Ada." in str(sandbox.web_requests("/rest/sse/perplexity_ask")[0]["body"])
    assert [item["type"] for item in listed["data"]][:2] == ["message", "message"]
    assert listed["data"][-len(first["output"]) :] == first["output"]


@pytest.mark.usefixtures("pool")
def test_it_leaves_deleted_items_out_of_the_next_prompt(who: Chatter, sandbox: SandboxServer) -> None:
    id = make(who, "My name is Ada.", "I live in Rome.")
    [rome] = [item["id"] for item in items(who, id)["data"] if "Rome" in str(item)]
    delete(who, f"{PATH}/{id}/items/{rome}")

    answer(who, "Who am I?", conversation=id)

    sent = str(sandbox.web_requests("/rest/sse/perplexity_ask")[0]["body"])
    assert ("Ada" in sent, "Rome" in sent) == (True, False)


@pytest.mark.usefixtures("pool")
def test_it_keeps_the_responses_that_were_made_in_it(who: Chatter) -> None:
    id = make(who)
    whole = answer(who, f"Hello? {say('Hello.')}", conversation=id)

    delete(who, f"{PATH}/{id}")

    kept = who.client.get(f"/v1/responses/{whole['id']}").json()
    assert text_of(kept) == "Hello."
