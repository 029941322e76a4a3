"""The JSON administration (proxy-contract §12), through the whole Django application."""

from __future__ import annotations

from json import dumps
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from portal.models.audit import AuditEntry
from portal.services import keys
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel
from tests.portal.people import somebody
from tests.proxy.accounts import account, token
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db
EVE = "sandbox-max-evelyn"


@pytest.fixture(autouse=True)
def _in_the_sandbox(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "sandbox"


class Caller:
    """Whoever has a key with these scopes, or none."""

    def __init__(self, *scopes: str) -> None:
        key = keys.create_key(somebody(admin=True), name="test", scopes=scopes)[1] if scopes else ""
        self.headers = {"authorization": f"Bearer {key}"} if key else {}

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: str | None = None,
        kind: str = "application/x-www-form-urlencoded",
    ) -> Any:
        if content is None:
            content, kind = dumps(json), "application/json"
        return Client(headers=self.headers).generic(method, path, content, content_type=kind)

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def post(self, path: str, **body: Any) -> Any:
        return self.request("POST", path, **body)


@pytest.fixture
def admin() -> Caller:
    return Caller("admin")


def error_of(answer: Any) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


PATHS = [
    ("GET", "/admin/models"),
    ("POST", "/admin/update-models"),
    ("POST", "/admin/refresh-cookie"),
    ("POST", "/admin/discover-models"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_it_is_for_admin_keys_only(method: str, path: str) -> None:
    nobody = Caller().request(method, path)
    assert nobody.status_code == 401
    assert error_of(nobody)["code"] == "invalid_api_key"

    other = Caller("chat", "research").request(method, path)
    assert other.status_code == 403
    assert "admin" in error_of(other)["message"]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_it_answers_another_method_in_the_envelope(admin: Caller, method: str, path: str) -> None:
    answer = admin.request("DELETE", path)

    assert answer.status_code == 405
    assert error_of(answer)["type"] == "invalid_request_error"


def test_django_s_own_site_is_still_there() -> None:
    answer = Caller().get("/admin/")

    assert answer.status_code == 302
    assert "login" in answer.headers["location"]


def test_it_shows_the_map_of_the_pool_s_tier(admin: Caller) -> None:
    account(tier="pro")

    body = admin.get("/admin/models").json()

    assert (body["default"], body["account_type"]) == ("gpt", "pro")
    assert body["models"]["gpt"] == {"mode": "pro", "pref": "gpt56_terra"}
    assert "opus" not in body["models"]


def test_it_changes_the_map(admin: Caller) -> None:
    models = {"house": ["pro", "house1"], "gpt": ["reasoning", "gpt57_terra"]}

    body = admin.post("/admin/update-models", json={"models": models}).json()

    assert body["status"] == "ok"
    assert body["model_count"] == len(body["models"]) == ChatModel.objects.count()
    assert ChatModel.objects.get(pk="house").preference == "house1"
    entry = AuditEntry.objects.get(action="models.changed")
    assert entry.detail["changed"] == ["gpt", "house"]


def test_it_replaces_the_map(admin: Caller) -> None:
    body = admin.post("/admin/update-models", json={"models": {"gpt": ["pro", "x"]}, "merge": False}).json()

    assert body == {"status": "ok", "model_count": 1, "models": ["gpt"]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ({}, "models"),
        ({"models": {"gpt": "x"}}, "models"),
        ({"models": {"gpt": ["pro"]}}, "models"),
        ({"models": {"gpt": ["turbo", "x"]}}, "models"),
        ({"models": {" ": ["pro", "x"]}}, "models"),
        ({"models": {"gpt": ["pro", " "]}}, "models"),
        ({"models": {}, "merge": False}, "models"),
        ({"models": {"gpt": ["pro", "x"]}, "merge": 1}, "merge"),
    ],
)
def test_a_map_that_is_none_changes_nothing(admin: Caller, body: Any, param: str | None) -> None:
    before = ChatModel.objects.count()

    answer = admin.post("/admin/update-models", json=body)

    assert answer.status_code == 400
    assert error_of(answer)["param"] == param
    assert ChatModel.objects.count() == before


@pytest.mark.parametrize(
    "request_",
    [
        {"json": {"session_token": EVE}},
        {"content": EVE},
        {"content": f"__Secure-next-auth.session-token={EVE}", "kind": "text/plain"},
    ],
    ids=["json", "text", "pair"],
)
def test_it_replaces_a_cookie_that_is_accepted(
    admin: Caller, sandbox: SandboxServer, request_: dict[str, Any]
) -> None:
    mine = account()

    answer = admin.post("/admin/refresh-cookie", **request_)

    assert answer.status_code == 200
    body = answer.json()
    assert (body["status"], body["models_loaded"]) == ("ok", ChatModel.objects.count())
    assert token(mine) == EVE
    assert EVE not in answer.content.decode()


def test_it_replaces_the_cookie_of_the_account_that_is_named(admin: Caller, sandbox: SandboxServer) -> None:
    account("first")
    second = account("second", priority=5)

    admin.post("/admin/refresh-cookie", json={"session_token": EVE, "account": "second"})
    assert token(second) == EVE

    answer = admin.post("/admin/refresh-cookie", json={"session_token": EVE, "account": "third"})
    assert (answer.status_code, error_of(answer)["param"]) == (400, "account")


@pytest.mark.parametrize(
    "request_",
    [
        {"json": {}},
        {"json": {"session_token": ""}},
        {"json": {"session_token": 5}},
        {"json": []},
        {"json": "x"},
        {"content": ""},
        {"content": f'{{"session_token": "{EVE}"', "kind": "application/json"},
        {"content": f'{{"session_token": "{EVE}"'},
        {"content": EVE, "kind": "application/json"},
        {"content": "x" * 70_000},
        {"json": {"session_token": "short"}},
    ],
)
def test_what_is_no_cookie_never_becomes_one(
    admin: Caller, sandbox: SandboxServer, request_: dict[str, Any]
) -> None:
    mine = account()

    answer = admin.post("/admin/refresh-cookie", **request_)

    assert answer.status_code == 400
    assert error_of(answer)["param"] in ("session_token", None)
    assert EVE not in answer.content.decode()
    assert token(mine) == "sandbox-max-tester"
    assert not sandbox.web_requests()


@pytest.mark.parametrize(
    ("pasted", "status"),
    [("sandbox-expired-eve", 401), ("sandbox-rejected-eve", 401), ("sandbox-blocked-eve", 502)],
)
def test_a_cookie_that_is_not_accepted_leaves_the_one_before(
    admin: Caller, sandbox: SandboxServer, pasted: str, status: int
) -> None:
    mine = account()

    answer = admin.post("/admin/refresh-cookie", json={"session_token": pasted})

    assert answer.status_code == status
    assert pasted not in answer.content.decode()
    assert token(mine) == "sandbox-max-tester"


def test_it_discovers_models(admin: Caller, sandbox: SandboxServer) -> None:
    account()
    sandbox.order("sandbox-max-tester", retired=["grok46low"], added=["grok48low"])

    body = admin.post("/admin/discover-models").json()

    assert body["status"] == "ok"
    assert body["details"]["upgraded"] == {"grok": {"old": "grok46low", "new": "grok48low"}}
    assert body["alive"] == len(body["details"]["alive"])
    assert body["probed"] == 0


def test_without_a_session_it_discovers_nothing(admin: Caller, sandbox: SandboxServer) -> None:
    answer = admin.post("/admin/discover-models")

    assert answer.status_code == 503
    assert "No Perplexity session" in error_of(answer)["message"]
    assert not WebAccount.objects.exists()


def test_no_answer_and_no_audit_entry_holds_a_cookie(admin: Caller, sandbox: SandboxServer) -> None:
    answer = admin.post("/admin/refresh-cookie", json={"session_token": EVE})

    entries = dumps(list(AuditEntry.objects.values_list("detail", "target")))
    stored = dumps(list(WebAccount.objects.values_list("jar", "imported_digest", "health_reason")))
    assert EVE not in answer.content.decode() + entries + stored
