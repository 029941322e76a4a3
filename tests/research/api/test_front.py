from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import ResponseItemList
from pydantic import TypeAdapter

from portal.doors import doors
from portal.services import keys
from tests.api_client import Client
from tests.research.api.callers import Caller, caller, end, run_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def who() -> Caller:
    return caller()


def with_scopes(who: Caller, *scopes: str) -> Client:
    """Another key of the same user."""
    return Client(doors, keys.create_key(who.user, name="narrow", scopes=scopes)[1])


def test_it_keeps_research_from_a_key_for_chat_and_chat_from_one_for_research(who: Caller) -> None:
    chat, research = with_scopes(who, "chat"), with_scopes(who, "research")
    asked = chat.post("/v1/responses", json={"input": "Why?", "preset": "2m"})
    assert (asked.status_code, asked.json()["error"]["type"]) == (403, "permission_error")
    said = research.post("/v1/responses", json={"input": "Hello"})
    assert (said.status_code, said.json()["error"]["type"]) == (403, "permission_error")


def test_it_knows_no_run_for_a_key_that_opens_chat_alone(who: Caller) -> None:
    run, chat = who.start(), with_scopes(who, "chat")
    end(run)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
        response = chat.request(method, f"/v1/responses/{run}{path}")
        assert response.status_code == 404, path
        assert response.content == chat.request(method, f"/v1/responses/resp_{'0' * 32}{path}").content


@pytest.mark.parametrize("name", ["compact", "input_tokens"])
@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]
)
def test_it_knows_no_response_by_a_fixed_name(who: Caller, name: str, method: str, path: str) -> None:
    response = who.client.request(method, f"/v1/responses/{name}{path}")
    if path:
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
    else:
        assert (response.status_code, response.headers["allow"]) == (405, "OPTIONS, POST")


def test_it_says_that_it_does_not_compact(who: Caller) -> None:
    response = who.client.post("/v1/responses/compact", json={"model": "gpt", "input": "Hello"})
    assert response.status_code == 400
    assert "cannot be compacted" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"input": "x" * 400}, 100),
        ({"input": "x" * 400, "model": "gpt", "preset": "2m"}, 100),
        ({"input": [{"role": "user", "content": "x" * 40}, {"role": "assistant", "content": "y" * 40}]}, 20),
        ({"input": "x" * 40, "instructions": "z" * 38}, 20),
    ],
)
def test_it_estimates_the_tokens_of_an_input(who: Caller, body: dict[str, Any], tokens: int) -> None:
    response = who.client.post("/v1/responses/input_tokens", json=body)
    assert response.json() == {"object": "response.input_tokens", "input_tokens": tokens}


@pytest.mark.parametrize("body", [{}, {"input": 7}, {"input": []}])
def test_it_counts_nothing_without_an_input(who: Caller, body: dict[str, Any]) -> None:
    response = who.client.post("/v1/responses/input_tokens", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "input")


def test_it_lists_the_question_of_a_run(who: Caller) -> None:
    run = who.start("Why is the sky blue?")
    page = who.client.get(f"/v1/responses/{run}/input_items").json()
    TypeAdapter(ResponseItemList).validate_python(page)
    [item] = page["data"]
    assert item["content"] == [{"type": "input_text", "text": "Why is the sky blue?"}]
    assert (page["first_id"], page["last_id"], page["has_more"]) == (item["id"], item["id"], False)
    after = who.client.get(f"/v1/responses/{run}/input_items?after={item['id']}&order=asc").json()
    assert (after["data"], after["first_id"], after["has_more"]) == ([], None, False)


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "order=up", "after=msg_1", "before=msg_1"])
def test_it_names_what_is_wrong_with_a_page(who: Caller, query: str) -> None:
    response = who.client.get(f"/v1/responses/{who.start()}/input_items?{query}")
    assert (response.status_code, response.json()["error"]["param"]) == (400, query.partition("=")[0])


def test_it_deletes_a_run_for_every_door(who: Caller) -> None:
    run = who.start()
    deleted = who.client.request("DELETE", f"/v1/responses/{run}")
    assert deleted.json() == {"id": run, "object": "response", "deleted": True}
    assert run_of(run).state == "cancelled"
    for path in (f"/v1/responses/{run}", f"/v1/agent/{run}", f"/v1/responses/{run}/input_items"):
        assert who.client.get(path).status_code == 404
    assert who.client.request("DELETE", f"/v1/responses/{run}").status_code == 404
    assert who.client.get("/v1/agent").json()["data"] == []
