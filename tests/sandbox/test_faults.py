"""Faults of one exchange, each shown to be told from all others."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime

import httpx
import pytest

from sandbox.faults import FAULTS
from sandbox.scenarios import PREFIXES
from tests.sandbox.visitor import Visitor

# How the answer to each fault is told from all others: status, and a test of the response.
WIRE: dict[str, tuple[int, Callable[[httpx.Response], object]]] = {
    "retired": (403, lambda r: r.json()["error"]["type"] == "chat_completions_not_available"),
    "migration-required": (403, lambda r: r.json()["error"]["type"] == "agent_api_migration_required"),
    "migration-required-code": (403, lambda r: r.json()["error"]["code"] == "agent_api_migration_required"),
    "migration-required-text": (403, lambda r: "agent_api_migration_required" in r.json()["error"]),
    "org-key": (403, lambda r: "Organization-level" in r.json()["error"]["message"]),
    "blocked": (403, lambda r: "blocked" in r.json()["error"]["message"]),
    "challenge": (403, lambda r: "Just a moment" in r.text and "html" in r.headers["content-type"]),
    "bad-key": (401, lambda r: r.json()["error"]["type"] == "invalid_api_key"),
    "no-credit": (402, lambda r: r.json()["error"]["type"] == "payment_required"),
    "invalid": (400, lambda r: r.json()["error"]["type"] == "invalid_request"),
    "unprocessable": (422, lambda r: r.json()["detail"][0]["loc"] == ["body", "request"]),
    "not-found": (404, lambda r: r.json()["error"]["message"] == "resource not found"),
    "too-large": (413, lambda r: r.json()["error"]["type"] == "payload_too_large"),
    "connector": (424, lambda r: r.json()["error"]["type"] == "external_connector_error"),
    "rate-limit": (429, lambda r: "retry-after" not in r.headers),
    "server-error": (500, lambda r: r.json()["error"]["type"] == "internal_error"),
    "bare-error": (500, lambda r: isinstance(r.json()["error"], str)),
    "bad-gateway": (502, lambda r: "<html>" in r.text),
    "unavailable": (503, lambda r: r.content == b""),
    "gateway-timeout": (504, lambda r: r.json()["error"]["type"] == "gateway_timeout"),
    "truncated": (200, lambda r: not is_json(r) and r.content.startswith(b"{")),
    "not-json": (200, lambda r: not is_json(r) and "<html>" in r.text),
    "not-object": (200, lambda r: r.json() == []),
    "empty-body": (200, lambda r: r.content == b""),
}
BROKEN = ("cut", "drop")


def is_json(answer: httpx.Response) -> bool:
    try:
        answer.json()
    except ValueError:
        return False
    return True


def marked(phase: str, fault: str, value: str = "") -> str:
    """A question that asks for a fault of the Agent API at a phase."""
    return f"Why? [sandbox:agent.{PREFIXES[phase]}{fault}{value}]"  # type: ignore[index]  # a plain string here


def shows(answer: httpx.Response, fault: str) -> bool:
    status, check = WIRE[fault]
    return answer.status_code == status and bool(check(answer))


@pytest.mark.parametrize("fault", WIRE)
async def test_it_refuses_a_submission_before_accepting_it(visitor: Visitor, fault: str) -> None:
    answer = await visitor.submit_agent(marked("submit", fault))
    assert shows(answer, fault)
    assert (await visitor.client.get("/_sandbox/jobs")).json()["jobs"] == []


@pytest.mark.parametrize("fault", WIRE)
async def test_it_loses_the_answer_after_accepting_the_run(visitor: Visitor, fault: str) -> None:
    answer = await visitor.submit_agent(marked("late", fault))
    assert shows(answer, fault)
    assert len((await visitor.client.get("/_sandbox/jobs")).json()["jobs"]) == 1


@pytest.mark.parametrize("fault", WIRE)
async def test_it_fails_the_first_fetches_and_recovers(visitor: Visitor, fault: str) -> None:
    run = await visitor.ask_agent(marked("poll", fault, "=2"))
    answers = [await visitor.client.get(f"/v1/agent/{run}") for _ in range(3)]
    assert [shows(answer, fault) for answer in answers[:2]] == [True, True]
    assert answers[2].json()["id"] == run


@pytest.mark.parametrize("fault", WIRE)
async def test_it_fails_the_first_cancel_without_effect(visitor: Visitor, fault: str) -> None:
    run = await visitor.ask_agent(marked("cancel", fault, "=1"))
    assert shows(await visitor.client.post(f"/v1/agent/{run}/cancel"), fault)
    states = [(await visitor.fetch_agent(run))["status"] for _ in range(4)]
    assert "cancelled" not in states
    assert (await visitor.client.post(f"/v1/agent/{run}/cancel")).json()["status"] == "cancelling"


@pytest.mark.parametrize("fault", WIRE)
@pytest.mark.parametrize("phase", ["submit", "late"])
async def test_it_fails_only_the_first_attempts_when_given_a_number(
    visitor: Visitor, phase: str, fault: str
) -> None:
    question = marked(phase, fault, "=2").replace("agent.", "sonar.")
    answers = [await visitor.submit_sonar(question, "one-key") for _ in range(3)]
    assert [shows(answer, fault) for answer in answers[:2]] == [True, True]
    assert answers[2].json()["status"] == "CREATED"
    assert len((await visitor.client.get("/_sandbox/jobs")).json()["jobs"]) == 1


@pytest.mark.parametrize("fault", WIRE)
async def test_it_fails_the_fetches_of_a_sonar_job_too(visitor: Visitor, fault: str) -> None:
    job = await visitor.ask_sonar(f"Why? [sandbox:poll-{fault}]")
    assert shows(await visitor.client.get(f"/v1/async/sonar/{job}"), fault)


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.legacy_only])
async def test_it_retires_only_sonar_unless_the_marker_names_the_agent_api(
    visitor: Visitor, fault: str
) -> None:
    question = f"Why? [sandbox:{fault}]"
    assert shows(await visitor.submit_sonar(question), fault)
    assert (await visitor.submit_agent(question)).status_code == 200
    assert shows(await visitor.submit_agent(f"Why? [sandbox:agent.{fault}]"), fault)


@pytest.mark.parametrize(
    ("phase", "jobs", "error"),
    [
        ("submit", 0, httpx.RemoteProtocolError),
        ("late", 1, httpx.RemoteProtocolError),
        ("poll", 1, httpx.RemoteProtocolError),
        ("cancel", 1, httpx.RemoteProtocolError),
    ],
)
@pytest.mark.parametrize("fault", BROKEN)
def test_it_breaks_the_connection(
    client: httpx.Client, phase: str, jobs: int, error: type[Exception], fault: str
) -> None:
    body = {"input": marked(phase, fault), "preset": "low", "background": True}

    def exchange() -> None:
        run = client.post("/v1/agent", json=body).json()["id"]
        client.post(f"/v1/agent/{run}/cancel")
        client.get(f"/v1/agent/{run}")

    with pytest.raises((error, httpx.ReadError)):
        exchange()
    assert len(client.get("/_sandbox/jobs").json()["jobs"]) == jobs


@pytest.mark.parametrize("phase", ["", "poll-", "cancel-"])
def test_it_sends_its_headers_late(client: httpx.Client, phase: str) -> None:
    body = {"input": f"[sandbox:{phase}slow=0.4]", "preset": "low", "background": True}
    quick = httpx.Timeout(5, read=0.2)
    if phase == "":
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/agent", json=body, timeout=quick)
        assert len(client.get("/_sandbox/jobs").json()["jobs"]) == 1
        return
    run = client.post("/v1/agent", json=body).json()["id"]
    method, path = ("GET", f"/v1/agent/{run}") if phase == "poll-" else ("POST", f"/v1/agent/{run}/cancel")
    with pytest.raises(httpx.ReadTimeout):
        client.request(method, path, timeout=quick)
    assert client.request(method, path).status_code in (200, 400)


async def test_it_says_when_to_come_back_in_seconds_or_as_a_date(visitor: Visitor) -> None:
    answer = await visitor.submit_agent("[sandbox:rate-limit] [sandbox:retry-after=7]")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    answer = await visitor.submit_agent("[sandbox:rate-limit] [sandbox:retry-after=date]")
    wait = parsedate_to_datetime(answer.headers["retry-after"]).timestamp() - visitor.clock.now
    assert 0 < wait <= 3
