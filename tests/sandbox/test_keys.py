"""Who may come in, and which part of the house still stands in which mode."""

from __future__ import annotations

import httpx
import pytest

from sandbox.app import Stamp
from tests.sandbox.visitor import Visitor, sonar_body

CHAT = {"model": "sonar", "messages": [{"role": "user", "content": "Hi"}]}
AGENT = {"input": "Hi", "preset": "low", "background": True}
SONAR_CALLS = (
    ("POST", "/v1/async/sonar", sonar_body("Hi")),
    ("GET", "/v1/async/sonar", None),
    ("GET", "/v1/async/sonar/some-id", None),
    ("POST", "/async/chat/completions", sonar_body("Hi")),
    ("GET", "/async/chat/completions", None),
    ("POST", "/chat/completions", CHAT),
    ("POST", "/v1/sonar", CHAT),
    ("POST", "/v1/chat/completions", CHAT),
)


@pytest.mark.parametrize(
    ("header", "status", "kind"),
    [
        ("", 401, "invalid_api_key"),
        ("Bearer nonsense", 401, "invalid_api_key"),
        ("Basic pplx-x", 401, "invalid_api_key"),
        ("Bearer pplx-bad-1", 401, "invalid_api_key"),
        ("Bearer pplx-org-1", 403, "forbidden"),
        ("Bearer pplx-blocked", 403, "forbidden"),
        ("Bearer pplx-broke", 402, "payment_required"),
        ("Bearer pplx-busy", 429, "request_rate_limit_exceeded"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/agent", "/v1/async/sonar", "/search"])
async def test_it_turns_some_keys_away(
    visitor: Visitor, path: str, header: str, status: int, kind: str
) -> None:
    answer = await visitor.client.post(path, json=AGENT, headers={"authorization": header})
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == kind
    assert answer.json()["error"]["code"] == status


async def test_it_wants_a_key_even_for_the_list_of_models(visitor: Visitor) -> None:
    answer = await visitor.client.get("/v1/models", headers={"authorization": ""})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("legacy-retired", "chat_completions_not_available"), ("agent", "agent_api_migration_required")],
)
@pytest.mark.parametrize(("method", "path", "body"), SONAR_CALLS)
async def test_it_refuses_every_sonar_path_once_retired(
    visitor: Visitor, mode: str, kind: str, method: str, path: str, body: object
) -> None:
    await visitor.client.post("/_sandbox/settings", json={"mode": mode})
    answer = await visitor.client.request(method, path, json=body)
    assert answer.status_code == 403
    assert answer.json()["error"]["type"] == kind


@pytest.mark.parametrize("mode", ["legacy-live", "legacy-retired", "agent"])
async def test_it_keeps_the_agent_api_alive_in_every_mode(visitor: Visitor, mode: str) -> None:
    await visitor.client.post("/_sandbox/settings", json={"mode": mode})
    assert (await visitor.client.post("/v1/agent", json=AGENT)).status_code == 200


async def test_it_can_retire_sonar_for_one_key(visitor: Visitor) -> None:
    retired = {"authorization": "Bearer pplx-retired-1"}
    sonar = await visitor.client.post("/v1/async/sonar", json=sonar_body("Hi"), headers=retired)
    assert sonar.json()["error"]["type"] == "chat_completions_not_available"
    assert (await visitor.client.post("/v1/agent", json=AGENT, headers=retired)).status_code == 200


async def test_it_answers_unknown_paths_in_the_gateways_shape(visitor: Visitor) -> None:
    answer = await visitor.client.get("/v2/agent")
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "not_found"
    assert answer.headers["x-request-id"]


async def test_it_opens_the_control_door_to_this_machine_alone(app: Stamp) -> None:
    for address, status in (("10.1.2.3", 403), ("127.0.0.2", 200), ("::1", 200)):
        transport = httpx.ASGITransport(app, client=(address, 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
            assert (await client.get("/_sandbox/counts")).status_code == status


async def test_it_takes_no_form_at_the_control_door(visitor: Visitor) -> None:
    answer = await visitor.client.post(
        "/_sandbox/reset", content=b"{}", headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 415
