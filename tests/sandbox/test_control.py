"""Counters and settings, and that they outlive a SIGKILL."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox.app import build_app
from tests.sandbox.visitor import HEADERS, Clock, Visitor, sonar_body
from tests.sandbox_server import SandboxServer
from tests.warm_start import ROOT

QUESTION = "How do tides work?"
AGENT = {"input": QUESTION, "preset": "low", "background": True}


@pytest.mark.slow
def test_it_keeps_jobs_and_counters_over_a_sigkill(tmp_path: Path) -> None:
    with SandboxServer(tmp_path / "s.sqlite3", seconds=60) as server:
        with httpx.Client(base_url=server.url, headers=HEADERS, trust_env=False) as client:
            run = client.post("/v1/agent", json=AGENT).json()["id"]
            job = client.post("/v1/async/sonar", json=sonar_body(QUESTION, "key")).json()["id"]
            client.get(f"/v1/agent/{run}")
            server.settings(mode="agent", seconds=50)
        server.fail_next("server-error", phase="poll")
        before, jobs = server.counts(), server.jobs()
        server.kill()
        server.start()
        assert server.counts() == before
        assert server.jobs() == jobs
        assert before.totals == {"jobs": 2, "polls": 1, "cancels": 0}
        with httpx.Client(base_url=server.url, headers=HEADERS, trust_env=False) as client:
            assert client.get(f"/v1/agent/{run}").status_code == 500
            assert client.get(f"/v1/agent/{run}").json()["status"] in ("queued", "in_progress")
            server.settings(mode="legacy-live")
            again = client.post("/v1/async/sonar", json=sonar_body(QUESTION, "key"))
            assert again.json()["id"] == job


def test_it_refuses_to_start_twice_on_one_port(server: SandboxServer, tmp_path: Path) -> None:
    second = SandboxServer(tmp_path / "other.sqlite3", port=server.port)
    with pytest.raises(RuntimeError):
        second.start()


STARTER = """
import pathlib, sys, time
from tests.sandbox_server import SandboxServer
server = SandboxServer(pathlib.Path(sys.argv[1]))
server.start()
print(server.port, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path / "s.sqlite3")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline())
        starter.kill()
    until = time.monotonic() + 5
    while is_open(port) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_open(port)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_it_counts_submissions_by_question_and_by_key(visitor: Visitor) -> None:
    await visitor.ask_agent(QUESTION)
    await visitor.ask_agent(QUESTION)
    await visitor.submit_agent("Why? [sandbox:server-error]")
    await visitor.ask_sonar(QUESTION, "key")
    await visitor.ask_sonar(QUESTION, "key")
    found = (await visitor.client.get("/_sandbox/counts")).json()
    rows = {(row["api"], row["idempotency_key"], row["question"]): row for row in found["submissions"]}
    assert counted(rows["agent", "", QUESTION]) == (2, 2)
    assert counted(rows["agent", "", "Why? [sandbox:server-error]"]) == (1, 0)
    assert counted(rows["sonar", "key", QUESTION]) == (2, 1)


def counted(row: dict[str, Any]) -> tuple[int, int]:
    return row["received"], row["accepted"]


async def test_it_counts_polls_cancels_and_lists(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    for _ in range(3):
        await visitor.fetch_agent(run)
    await visitor.client.post(f"/v1/agent/{run}/cancel")
    await visitor.client.get("/v1/async/sonar")
    job = (await visitor.client.get("/_sandbox/jobs")).json()["jobs"][0]
    assert (job["polls"], job["cancels"], job["state"]) == (3, 1, "in_progress")
    found = (await visitor.client.get("/_sandbox/counts")).json()
    assert found["totals"] == {"jobs": 1, "polls": 3, "cancels": 1}
    assert found["calls"] == {"sonar.list": 1}


async def test_it_does_not_count_what_it_turned_away(visitor: Visitor) -> None:
    await visitor.submit_agent(QUESTION, colour=1)
    await visitor.client.post("/v1/agent", json=AGENT, headers={"authorization": ""})
    assert (await visitor.client.get("/_sandbox/counts")).json()["submissions"] == []


async def test_it_fails_the_next_calls_of_a_phase_and_an_api(visitor: Visitor) -> None:
    run, job = await visitor.ask_agent(QUESTION), await visitor.ask_sonar(QUESTION)
    fault = {"fault": "rate-limit", "phase": "poll", "api": "sonar", "times": 2}
    await visitor.client.post("/_sandbox/settings", json={"fail_next": fault})
    statuses = []
    for path in (f"/v1/agent/{run}", *[f"/v1/async/sonar/{job}"] * 3):
        statuses.append((await visitor.client.get(path)).status_code)
    assert statuses == [200, 429, 429, 200]


async def test_it_can_fail_the_list(visitor: Visitor) -> None:
    await visitor.client.post(
        "/_sandbox/settings", json={"fail_next": {"fault": "not-json", "phase": "list"}}
    )
    assert "<html>" in (await visitor.client.get("/v1/async/sonar")).text
    assert "requests" in (await visitor.client.get("/v1/async/sonar")).json()


async def test_it_changes_the_usual_length_of_a_run(visitor: Visitor) -> None:
    await visitor.client.post("/_sandbox/settings", json={"seconds": 2})
    run = await visitor.ask_agent(QUESTION)
    visitor.clock.forward(2)
    assert (await visitor.fetch_agent(run))["status"] == "completed"


async def test_it_forgets_everything_on_reset_and_goes_back_to_its_first_settings(visitor: Visitor) -> None:
    await visitor.ask_agent(QUESTION)
    settings = {"mode": "agent", "seconds": 1, "fail_next": {"fault": "drop"}}
    await visitor.client.post("/_sandbox/settings", json=settings)
    answer = (await visitor.client.post("/_sandbox/reset", json={})).json()
    assert (answer["mode"], answer["seconds"], answer["fail_next"]) == ("legacy-live", 10, [])
    assert (await visitor.client.get("/_sandbox/counts")).json() == {
        "totals": {"jobs": 0, "polls": 0, "cancels": 0},
        "calls": {},
        "submissions": [],
    }


@pytest.mark.parametrize(
    "settings",
    [
        [],
        {"colour": 1},
        {"mode": "dead"},
        {"mode": []},
        {"seconds": -1},
        {"seconds": "1"},
        {"seconds": True},
        {"fail_next": {"phase": "poll"}},
        {"fail_next": {"fault": "bored"}},
        {"fail_next": {"fault": ["drop"]}},
        {"fail_next": {"fault": "drop", "phase": "sleep"}},
        {"fail_next": {"fault": "drop", "api": "mail"}},
        {"fail_next": {"fault": "no-credit", "api": "web"}},
        {"fail_next": {"fault": "challenge-ok", "api": "agent"}},
        {"chat_seconds": -1},
        {"chat_seconds": None},
        {"web_version": 2.18},
        {"fail_next": {"fault": "drop", "times": 0}},
        {"fail_next": "drop"},
    ],
    ids=str,
)
async def test_it_refuses_settings_that_make_no_sense(visitor: Visitor, settings: object) -> None:
    assert (await visitor.client.post("/_sandbox/settings", json=settings)).status_code == 400


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("[::1]:1", 200),
        ("rebound.example", 403),
        ("192.0.2.1", 403),
    ],
)
async def test_it_opens_its_control_door_to_no_name_of_the_internet(
    visitor: Visitor, host: str, status: int
) -> None:
    answer = await visitor.client.get("/_sandbox/jobs", headers={"host": host})

    assert answer.status_code == status


async def test_it_tells_what_every_marker_means(visitor: Visitor) -> None:
    found = (await visitor.client.get("/_sandbox/markers")).json()
    assert all(meaning.endswith(".") for meaning in found.values())
    readme = (Path(__file__).parents[2] / "sandbox" / "README.md").read_text()
    behaviours = [name for name in found if not name.startswith(("late-", "poll-", "cancel-"))]
    assert [name for name in behaviours if f"`{name}" not in readme] == []


def test_it_takes_its_usual_length_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_SECONDS", "soon")
    with pytest.raises(SystemExit, match="SANDBOX_SECONDS"):
        build_app(tmp_path / "a.sqlite3")
    monkeypatch.setenv("SANDBOX_SECONDS", "3.5")
    app = build_app(tmp_path / "b.sqlite3", clock=Clock())
    assert app.world.seconds == 3.5
    app.close()


def test_it_prefers_given_settings_to_remembered_ones(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    first = build_app(path, mode="agent", seconds=4)
    first.world.save()
    first.close()
    remembering, told = build_app(path), build_app(path, mode="legacy-live", seconds=1)
    assert (remembering.world.mode, remembering.world.seconds) == ("agent", 4)
    assert (told.world.mode, told.world.seconds) == ("legacy-live", 1)
    told.close()
    remembering.close()
