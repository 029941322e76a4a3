"""Bad input at every door: one clear error that names the field, and nothing that it costs (QUALITY 3).

The routes are the portal's own list: a new one fails here until it says what is wrong with its input.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pytest_django import Settings

from portal.api.routes import OpenRoute
from portal.doors import doors
from portal.models.ledger import LedgerEntry
from portal.models.users import User
from portal.services.keys import create_key
from portal.wire.gateway import is_gateway_path
from proxy.models.chats import ChatTurn
from research.models.runs import Run
from tests import api_client
from tests.portal.people import a_team, leads, somebody
from tests.portal.roof.belongings import OF_DOORS, a_conversation, a_run
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter

pytestmark = pytest.mark.django_db(transaction=True)
Route = tuple[str, str]
Wrong = tuple[dict[str, Any], str | None]
NO_OBJECT: Wrong = ({"json": [1]}, None)

WRONG: dict[Route, list[Wrong]] = {
    ("POST", "/v1/chat/completions"): [
        NO_OBJECT,
        ({"json": {"model": "gpt", "messages": []}}, "messages"),
        ({"json": {"model": "nope", "messages": [{"role": "user", "content": "x"}]}}, "model"),
        ({"json": {"messages": [{"role": "user", "content": "x"}], "stream": "yes"}}, "stream"),
    ],
    ("GET", "/v1/models/{id:path}"): [({}, "model")],
    ("POST", "/v1/files"): [
        ({"files": {"file": ("a.txt", b"x")}, "data": {"purpose": "none"}}, "file"),
        ({"data": {"purpose": "user_data"}, "files": {"other": ("a.txt", b"x")}}, "file"),
    ],
    ("GET", "/v1/files"): [({"params": {"limit": "0"}}, "limit"), ({"params": {"order": "up"}}, "order")],
    ("POST", "/v1/conversations"): [NO_OBJECT, ({"json": {"metadata": 5}}, "metadata")],
    ("POST", "/v1/conversations/{id}"): [NO_OBJECT, ({"json": {"metadata": 5}}, "metadata")],
    ("GET", "/v1/conversations/{id}/items"): [({"params": {"limit": "0"}}, "limit")],
    ("POST", "/v1/conversations/{id}/items"): [NO_OBJECT, ({"json": {"items": 5}}, "items")],
    ("POST", "/v1/responses"): [
        NO_OBJECT,
        ({"json": {"model": "gpt", "input": 5}}, "input"),
        ({"json": {"preset": "2m", "input": ""}}, "input"),
        ({"json": {"preset": "none", "input": "x"}}, "preset"),
    ],
    ("POST", "/v1/responses/compact"): [({"json": {}}, None)],
    ("POST", "/v1/responses/input_tokens"): [NO_OBJECT],
    ("GET", "/v1/responses/{id}"): [({"params": {"stream": "yes"}}, "stream")],
    ("POST", "/v1/responses/{id}/cancel"): [NO_OBJECT],
    ("GET", "/v1/responses/{id}/input_items"): [({"params": {"limit": "0"}}, "limit")],
    ("POST", "/v1/agent"): [NO_OBJECT, ({"json": {"input": ""}}, "input")],
    ("GET", "/v1/agent"): [({"params": {"limit": "0"}}, "limit")],
    ("GET", "/v1/agent/{id}"): [({"params": {"stream": "yes"}}, "stream")],
    ("POST", "/v1/agent/{id}/cancel"): [NO_OBJECT],
    **{
        ("POST", path): [NO_OBJECT, ({"json": {"model": "sonar", "messages": []}}, "messages")]
        for path in ("/chat/completions", "/v1/sonar")
    },
    **{
        ("POST", path): [NO_OBJECT, ({"json": {"request": 5}}, "request")]
        for path in ("/v1/async/sonar", "/async/chat/completions")
    },
    **{
        ("GET", path): [({"params": {"limit": "0"}}, "limit")]
        for path in ("/v1/async/sonar", "/async/chat/completions")
    },
}
"""What is sent → the field that the error names; None where there is no field to name."""
NOTHING_TO_SAY = {
    ("GET", "/v1/models"),
    ("GET", "/v1/files/{id}"),
    ("GET", "/v1/files/{id}/content"),
    ("DELETE", "/v1/files/{id}"),
    ("GET", "/v1/conversations/{id}"),
    ("DELETE", "/v1/conversations/{id}"),
    ("GET", "/v1/conversations/{id}/items/{item}"),
    ("DELETE", "/v1/conversations/{id}/items/{item}"),
    ("DELETE", "/v1/responses/{id}"),
    ("GET", "/v1/async/sonar/{id}"),
    ("GET", "/async/chat/completions/{id}"),
}
"""Doors that take nothing but the id in their path."""


@pytest.fixture(autouse=True)
def _nobody_answers(settings: Settings) -> None:
    settings.SONDE_UPSTREAM, settings.PERPLEXITY_BASE_URL = "sandbox", "http://127.0.0.1:9"
    account()


def caller(user: User) -> Chatter:
    _, text = create_key(user, name="all", scopes=["research", "chat", "files"])
    return Chatter(user, text, api_client.Client(doors, text))


def people() -> dict[str, Chatter]:
    lead = somebody(team=a_team())
    leads(lead)
    return {"member": caller(somebody()), "lead": caller(lead), "admin": caller(somebody(admin=True))}


def address(who: Chatter, path: str) -> str:
    """With ids of the caller's own, so that nothing is wrong but the input."""
    if path not in OF_DOORS:
        return path.replace("{id:path}", "nope")
    parts = a_conversation(who) if a_conversation in OF_DOORS[path] else a_run(who)
    return path.replace("{id}", parts["id"])


def rows() -> tuple[int, ...]:
    return LedgerEntry.objects.count(), Run.objects.count(), ChatTurn.objects.count()


def named(path: str, answer: httpx.Response) -> str | None:
    error = answer.json()["error"]
    assert error["message"].strip()
    assert "Traceback" not in answer.text
    if is_gateway_path(path):
        assert error["code"] == answer.status_code
    return error.get("param")  # type: ignore[no-any-return]


def test_it_asks_every_door() -> None:
    locked = {(route.method, route.path) for route, _ in doors.routes if not isinstance(route, OpenRoute)}

    assert locked - NOTHING_TO_SAY == set(WRONG)
    assert locked >= NOTHING_TO_SAY


@pytest.mark.slow
def test_it_names_what_is_wrong_to_everybody_and_takes_nothing_for_it() -> None:
    for name, who in people().items():
        for (method, path), wrongs in WRONG.items():
            place = address(who, path)
            before = rows()
            for sent, field in wrongs:
                answer = who.client.request(method, place, **sent)
                where = (name, method, path, sent, answer.text)
                assert 400 <= answer.status_code < 500, where
                assert named(path, answer) == field, where
            assert rows() == before, (name, method, path)


def test_it_reads_no_body_that_is_no_json() -> None:
    who = people()["member"]
    for method, path in WRONG:
        if method != "POST" or path in ("/v1/files", "/v1/responses/compact"):
            continue
        place = address(who, path)
        before = rows()
        for content in (b"{broken", b"\xff\xfe", b'"text"', b"[" * 5000, b'{"a": 1}x'):
            answer = who.client.post(place, content=content, headers={"content-type": "application/json"})
            assert answer.status_code == 400, (path, content[:9], answer.text)
            assert named(path, answer) is None, (path, content[:9])
        assert rows() == before, path
