"""What one did not make does not exist, on every route there is (SPEC 2.5), and every route looks who comes.

The routes are the portal's own list: a new one fails here until it is looked at too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import get_resolver
from pytest_django import Settings

from portal.api.routes import OpenRoute
from portal.api.tools import call_tool
from portal.doors import doors
from portal.mcp.toolbox import DOORS
from portal.models.keys import Scope
from portal.models.teams import Team
from portal.services import keys
from tests import api_client
from tests.portal.people import a_team, leads, somebody
from tests.portal.roof.belongings import EVERYBODYS, OF_DOORS, OF_LISTS, OF_PAGES, OF_TOOLS, Parts, a_run
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter

pytestmark = pytest.mark.django_db(transaction=True)

LOCKED = [route for route, _ in doors.routes if not isinstance(route, OpenRoute)]
OPEN = {"/health", "/health/live", "/health/ready"}
OPEN_PAGES = {
    *("account/login/", "account/logout/", "account/inactive/", "account/signup/", "account/password/reset/"),
    "account/reauthenticate/",
    "invite/<str:token>",
    "sonde_mcp.py",
}
ADMIN = {Scope.ADMIN.value}
EITHER = {Scope.RESEARCH.value, Scope.CHAT.value}
"""A door without a scope of its own wants one of these, by what it is asked for."""
BODY = {"metadata": {}, "items": [{"type": "message", "role": "user", "content": "Why?"}]}
"""Sound wherever a path names something."""
SECRET = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')


@pytest.fixture(autouse=True)
def _nobody_answers(settings: Settings) -> None:
    settings.SONDE_UPSTREAM, settings.PERPLEXITY_BASE_URL = "sandbox", "http://127.0.0.1:9"


def person(team: Team | None = None, *, leading: bool = False, admin: bool = False) -> Chatter:
    user = somebody(100, team=team, admin=admin)
    if leading:
        leads(user)
        user.refresh_from_db()
    scopes = [scope for scope in Scope.values if admin or scope not in ADMIN]
    _, text = keys.create_key(user, name="all", scopes=scopes)
    return Chatter(user, text, api_client.Client(doors, text))


@pytest.fixture
def owner() -> Chatter:
    account(parallel_limit=100)
    return person(a_team(), leading=True)


@pytest.fixture
def strangers(owner: Chatter) -> dict[str, Chatter]:
    own = owner.user.membership.team
    return {
        "member": person(a_team()),
        "lead": person(a_team(), leading=True),
        "teammate": person(own),
        "admin": person(a_team(), admin=True),
    }


def pages(patterns: Any = None, before: str = "") -> Iterator[str]:
    """The patterns of Django's paths; those of the admin site are the administrators'."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        path = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from pages(pattern.url_patterns, path)
        elif not path.startswith(("admin/", "^")):
            yield path


def unknown(parts: Parts) -> Parts:
    """Of the same form, and nobody's."""
    return {
        name: str(int(part) + 10**6) if part.isdecimal() else part[:-8] + part[-8:][::-1]
        for name, part in parts.items()
    }


def filled(path: str, parts: Parts) -> str:
    """A door's `{id:path}`, or a page's `<str:id>`."""
    return re.sub(r"{(\w+)[^}]*}|<\w+:(\w+)>", lambda found: parts[found[1] or found[2]], path)


def without(parts: Parts, content: bytes) -> bytes:
    for part in (part for part in parts.values() if not part.isdecimal()):
        content = content.replace(part.encode(), b"ID")
    return content


def asked(who: Chatter, method: str, path: str, parts: Parts) -> tuple[int, list[tuple[str, str]], bytes]:
    """Everything but the name of the request."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(doors)
        async with httpx.AsyncClient(transport=transport, base_url=api_client.HOST) as client:
            body = BODY if method == "POST" else None
            return await client.request(method, filled(path, parts), headers=who.client.headers, json=body)

    answer = asyncio.run(ask())
    headers = [item for item in answer.headers.multi_items() if item[0] != "x-request-id"]
    return answer.status_code, headers, without(parts, answer.content)


def test_it_looks_at_every_route_tool_and_page_that_names_something() -> None:
    of_tools = {
        name: argument
        for name, door in DOORS.items()
        for argument in door.tool.body()["inputSchema"]["properties"]
        if re.search(r"(^|_)id$", argument)
    }

    assert {route.path for route in LOCKED if "{" in route.path} - set(EVERYBODYS) == set(OF_DOORS)
    assert {path for path in pages() if "<" in path} - set(EVERYBODYS) == set(OF_PAGES)
    assert of_tools == OF_TOOLS
    assert {route.path for route, _ in doors.routes if isinstance(route, OpenRoute)} == OPEN


def test_it_answers_every_stranger_byte_for_byte_as_for_unknown_ids(
    owner: Chatter, strangers: dict[str, Chatter]
) -> None:
    for route in (route for route in LOCKED if route.path in OF_DOORS):
        for make in OF_DOORS[route.path]:
            parts = make(owner)
            for name, stranger in strangers.items():
                theirs = asked(stranger, route.method, route.path, parts)
                assert theirs == asked(stranger, route.method, route.path, unknown(parts)), (name, route)
                assert theirs[0] == 404, (name, route)
            assert asked(owner, route.method, route.path, parts)[0] != 404, route


def test_it_answers_a_stranger_s_place_in_a_list_as_an_unknown_one(
    owner: Chatter, strangers: dict[str, Chatter]
) -> None:
    for path, make in OF_LISTS.items():
        parts = make(owner)
        for stranger in strangers.values():
            theirs = asked(stranger, "GET", f"{path}?after={{id}}", parts)
            assert theirs == asked(stranger, "GET", f"{path}?after={{id}}", unknown(parts)), path


def shown(client: Client, method: str, path: str, parts: Parts) -> tuple[int, str, bytes]:
    answer: HttpResponse = getattr(client, method)("/" + filled(path, parts))
    content = SECRET.sub(b"", without(parts, answer.content))
    return answer.status_code, answer.headers.get("location", ""), content


def logged_in(who: Chatter) -> Client:
    client = Client()
    client.force_login(who.user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_it_shows_every_stranger_the_page_of_an_unknown_id(
    owner: Chatter, strangers: dict[str, Chatter]
) -> None:
    visitors = {name: logged_in(stranger) for name, stranger in strangers.items()}
    for path, make in OF_PAGES.items():
        parts = make(owner)
        for name, visitor in visitors.items():
            for method in ("get", "post"):
                theirs = shown(visitor, method, path, parts)
                assert theirs == shown(visitor, method, path, unknown(parts)), (name, path)
                assert theirs[0] in (403, 404, 405), (name, path)
        statuses = {shown(logged_in(owner), method, path, parts)[0] for method in ("get", "post")}
        assert statuses - {403, 404, 405}, path


def test_it_tells_every_stranger_s_model_what_it_tells_of_an_unknown_id(
    owner: Chatter, strangers: dict[str, Chatter]
) -> None:
    async def tell(done: float, total: float | None, words: str) -> None:
        pass

    def called(who: Chatter, name: str, id: str) -> str:
        result = asyncio.run(call_tool(DOORS[name], who.principal, {OF_TOOLS[name]: id}, tell))
        return f"{result.is_error} {result.text} {result.structured}".replace(id, "ID")

    for name in OF_TOOLS:
        parts = a_run(owner)
        for stranger in strangers.values():
            theirs = called(stranger, name, parts["id"])
            assert theirs == called(stranger, name, unknown(parts)["id"]), name
            assert theirs.startswith("True"), name
        assert called(owner, name, parts["id"]).startswith("False"), name


def test_it_wants_a_key_and_a_scope_at_every_door() -> None:
    parts = {"id": "resp_" + "0" * 32, "item": "x"}
    people = {scope: person() for scope in Scope.values}
    for scope, who in people.items():
        user = somebody(admin=True) if scope in ADMIN else who.user
        _, text = keys.create_key(user, name=scope, scopes=[scope])
        people[scope] = Chatter(user, text, api_client.Client(doors, text))
    nobody = Chatter(somebody(), "", api_client.Client(doors))
    for route in LOCKED:
        assert asked(nobody, route.method, route.path, parts)[0] == 401, route
        let_in = {
            scope
            for scope, who in people.items()
            if asked(who, route.method, route.path, parts)[0] not in (401, 403)
        }
        assert let_in == {route.scope} if route.scope else let_in and let_in <= EITHER, route


def test_it_sends_whoever_is_not_logged_in_to_the_door() -> None:
    parts = {"public_id": "x", "member": "1", "invitation": "1", "token": "x"}
    parts["conversation_id"] = parts["item"] = "00000000-0000-4000-8000-000000000000"
    for path in pages():
        answers = [shown(Client(), method, path, parts)[:2] for method in ("get", "post")]
        status, place = next(answer for answer in answers if answer[0] != 405)
        if path in OPEN_PAGES:
            assert status != 401, path
        elif path.startswith("api/"):
            assert status == 401, path
        else:
            assert (status, place.partition("?")[0]) == (302, "/account/login/"), path
