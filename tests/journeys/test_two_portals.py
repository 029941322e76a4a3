"""One portal that uses another as its upstream (SPEC 3.2, `responses`): two real servers."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.verdict import Books
from tests.running_server import RunningServer

pytestmark = [pytest.mark.slow, pytest.mark.embedded]
ENDS = ("completed", "failed", "incomplete", "cancelled")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("upstream")
    with RunningServer(folder, SANDBOX_SECONDS="0.5", RESEARCH_POLL_SECONDS="0.1") as server:
        yield server


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory, upstream: RunningServer) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("portal")
    key_file = folder / "key"
    key_file.write_text(upstream.api_key)
    with RunningServer(
        folder,
        sandbox=False,
        RESPONSES_BACKEND_URL=f"{upstream.url}/v1",
        RESPONSES_BACKEND_KEY_FILE=str(key_file),
        RESEARCH_BACKENDS="agent,sonar,web,responses",
        RESEARCH_POLL_SECONDS="0.1",
        RESEARCH_LEASE_SECONDS="3",
    ) as server:
        yield server


def call(server: RunningServer, method: str, path: str, body: object = None) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    answer = httpx.request(method, f"{server.url}{path}", json=body, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def start(server: RunningServer, question: str) -> str:
    body = {"input": question, "preset": "2m", "idempotency_key": question}
    return str(call(server, "POST", "/v1/agent", body)["id"])


def wait_for(server: RunningServer, run_id: str, *states: str) -> dict[str, Any]:
    until = time.monotonic() + 40
    while (run := call(server, "GET", f"/v1/agent/{run_id}"))["status"] not in states:
        assert time.monotonic() < until, run
        time.sleep(0.1)
    return run


def runs_of(server: RunningServer) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = call(server, "GET", "/v1/agent?limit=100")["data"]
    return runs


def addresses(run: dict[str, Any]) -> list[tuple[int, str]]:
    return [(source["id"], source["url"]) for source in run["sonde"]["sources"]]


def test_it_delivers_the_report_of_another_portal_with_all_its_sources(
    portal: RunningServer, upstream: RunningServer
) -> None:
    run = wait_for(portal, start(portal, "How do tides work?"), *ENDS)
    assert (run["status"], run["sonde"]["backend"]) == ("completed", "responses")
    (theirs,) = runs_of(upstream)
    original = wait_for(upstream, theirs["id"], "completed")
    assert run["output_text"] == original["output_text"]
    assert addresses(run) == addresses(original)
    assert len(addresses(run)) == 8
    assert run["sonde"]["model"] == original["sonde"]["model"]
    assert run["sonde"]["sandbox"] is True
    assert run["sonde"]["notes"] == []


def test_it_stops_the_run_of_the_other_portal(portal: RunningServer, upstream: RunningServer) -> None:
    run_id = start(portal, "Tides? [sandbox:stuck]")
    wait_for(portal, run_id, "in_progress")
    until = time.monotonic() + 30
    while not any(run["status"] == "in_progress" for run in runs_of(upstream)):
        assert time.monotonic() < until
        time.sleep(0.1)
    call(portal, "POST", f"/v1/agent/{run_id}/cancel")
    assert wait_for(portal, run_id, *ENDS)["status"] == "cancelled"
    theirs = runs_of(upstream)[0]
    assert wait_for(upstream, theirs["id"], *ENDS)["status"] == "cancelled"


def test_it_is_one_run_there_when_a_worker_dies_and_may_send_again(
    portal: RunningServer, upstream: RunningServer
) -> None:
    before = len(runs_of(upstream))
    database = portal.folder / "data" / "sonde.sqlite3"
    with sqlite3.connect(database, timeout=20) as connection:
        connection.execute("UPDATE research_backendpolicy SET resubmit = 1 WHERE name = 'responses'")
    connection.close()
    portal.terminate()
    portal.start(SONDE_CRASH_AT="submit.accepted")
    run_id = start(portal, "Tides after a death?")
    assert portal.wait() == -signal.SIGKILL
    portal.start()
    run = wait_for(portal, run_id, *ENDS)
    assert run["status"] == "completed"
    assert "sent once more" in run["sonde"]["notes"][0]
    assert len(runs_of(upstream)) == before + 1
    books = Books(Path(database))
    books.check_money(books.runs())


def test_it_keeps_the_key_of_the_other_portal_to_itself(
    portal: RunningServer, upstream: RunningServer
) -> None:
    secret = upstream.api_key.rpartition("_")[2].encode()
    written = [path for path in portal.folder.rglob("*") if path.is_file() and path.name != "key"]
    assert [path.name for path in written if secret in path.read_bytes()] == []
