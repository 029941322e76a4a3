"""kill -9 at each crash point of STACK §4.7, in a really running portal (points 1-12).

The process that reaches the point kills itself with SIGKILL; the portal is started again, and
the database and the upstream's counters say what became of the runs.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.crash.verdict import Books, check_upstream
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.slow

AT_THE_DOOR = ("start.before_commit", "start.committed", "start.rung")
IN_THE_WORKER = (
    "submit.leased",
    "submit.before_send",
    "submit.accepted",
    "poll.answered",
    "finish.received",
    "finish.inside",
    "finish.committed",
)
IN_A_STOP = ("cancel.committed", "stop.answered")
WHILE_SENDING = {"submit.before_send", "submit.accepted"}
POLL, LEASE = "0.2", "3"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "sandbox.sqlite3", seconds=0.5) as server:
        yield server


def start(server: RunningServer, question: str, key: str, preset: str = "2m") -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/agent",
        json={"input": question, "preset": preset, "idempotency_key": key},
        headers={"Authorization": f"Bearer {server.api_key}"},
        timeout=30,
    )


def cancel(server: RunningServer, run_id: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.post(f"{server.url}/v1/agent/{run_id}/cancel", headers=headers, timeout=30)


class Portal:
    """One embedded portal that is killed and started again, over and over, on one folder."""

    def __init__(self, folder: Path, sandbox: SandboxServer, backend: str) -> None:
        self.sandbox = sandbox
        self.server = RunningServer(
            folder,
            sandbox=False,
            SONDE_UPSTREAM="sandbox",
            PERPLEXITY_BASE_URL=sandbox.url,
            RESEARCH_BACKENDS=backend,
            RESEARCH_POLL_SECONDS=POLL,
            RESEARCH_LEASE_SECONDS=LEASE,
        )
        self.books = Books(folder / "data" / "sonde.sqlite3")
        self.expected = 0
        self.deaths_while_sending = 0

    def judge(self) -> None:
        rows = self.books.wait_for_the_end(self.expected, 40)
        self.books.check_money(rows)
        self.books.check_events()
        check_upstream(rows, self.sandbox.counts(), deaths_while_sending=self.deaths_while_sending)
        assert self.server.manage("ledger_check").returncode == 0


@pytest.fixture(scope="module", params=["agent", "sonar"])
def lasting_portal(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sandbox: SandboxServer
) -> Iterator[Portal]:
    portal = Portal(tmp_path_factory.mktemp("portal"), sandbox, request.param)
    with portal.server as server:
        server.terminate()
        yield portal


@pytest.fixture
def portal(lasting_portal: Portal) -> Iterator[Portal]:
    """The same folder for every point, so that the books of all of them must balance."""
    lasting_portal.expected = len(lasting_portal.books.runs())
    yield lasting_portal
    lasting_portal.server.close()


@pytest.mark.embedded
@pytest.mark.parametrize("point", AT_THE_DOOR)
def test_it_makes_one_run_of_a_start_that_died_at_the_door(portal: Portal, point: str) -> None:
    server, question, key = portal.server, f"Tides at {point}?", f"key {point}"
    server.start(SONDE_CRASH_AT=point)
    with pytest.raises(httpx.TransportError):
        start(server, question, key)
    assert server.wait() == -signal.SIGKILL
    server.start()
    portal.expected += 1
    assert start(server, question, key).status_code == 200
    portal.judge()


@pytest.mark.embedded
@pytest.mark.parametrize("point", IN_THE_WORKER)
def test_it_finishes_once_and_charges_once_what_a_worker_died_on(portal: Portal, point: str) -> None:
    server = portal.server
    server.start(SONDE_CRASH_AT=point)
    # The worker may be quicker than the answer.
    with contextlib.suppress(httpx.TransportError):
        start(server, f"Tides at {point}?", f"key {point}")
    assert server.wait() == -signal.SIGKILL
    portal.expected += 1
    portal.deaths_while_sending += point in WHILE_SENDING
    server.start()
    portal.judge()
    assert {row.state for row in portal.books.runs()} == {"completed"}


@pytest.mark.embedded
@pytest.mark.parametrize("point", IN_A_STOP)
def test_it_ends_a_stop_that_a_death_interrupted(tmp_path: Path, sandbox: SandboxServer, point: str) -> None:
    portal = Portal(tmp_path, sandbox, "agent")
    with portal.server as server:
        server.terminate()
        server.start(SONDE_CRASH_AT=point)
        question = f"Tides at {point}? [sandbox:stuck]"
        run_id = start(server, question, "key").json()["id"]
        wait_until_submitted(sandbox, question)
        with contextlib.suppress(httpx.TransportError):
            cancel(server, run_id)
        assert server.wait() == -signal.SIGKILL
        portal.expected = 1
        server.start()
        portal.judge()
        assert [row.state for row in portal.books.runs()] == ["cancelled"]


def wait_until_submitted(sandbox: SandboxServer, question: str) -> None:
    """Until the portal has recorded it, too: a poll shows that."""
    until = time.monotonic() + 30
    while not any(job["polls"] for job in sandbox.jobs() if job["question"] == question):
        assert time.monotonic() < until, "never submitted"
        time.sleep(0.1)


@pytest.mark.embedded
def test_it_ends_each_of_many_races_of_stop_and_finish_once(tmp_path: Path, sandbox: SandboxServer) -> None:
    """Point 12, with the real worker: stops that arrive around the moment of completion."""
    portal = Portal(tmp_path, sandbox, "agent")
    with portal.server as server:
        server.manage("grant_credits", "admin@localhost", "1000")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda n: race(server, n), range(200)))
        portal.expected = 200
        portal.judge()
        states = [row.state for row in portal.books.runs()]
        assert {"completed", "cancelled"} == set(states)


def race(server: RunningServer, number: int) -> None:
    """Start a run of 0.3 s and stop it somewhere between 0 and 1 s later.

    Of ten, one is stopped once it has ended, and one takes so long that the stop surely comes first.
    """
    seconds = 60 if number % 10 == 1 else 0.3
    answer = start(server, f"Tides number {number}? [sandbox:duration={seconds}]", f"race {number}")
    run_id = answer.json()["id"]
    with httpx.Client(timeout=30, headers={"Authorization": f"Bearer {server.api_key}"}) as client:
        if number % 10:
            time.sleep((number * 37 % 100) / 100)
        else:
            wait_until_ended(client, f"{server.url}/v1/agent/{run_id}")
        stopped = client.post(f"{server.url}/v1/agent/{run_id}/cancel")
    assert stopped.status_code in ((200, 400) if number % 10 else (400,))


def wait_until_ended(client: httpx.Client, url: str) -> None:
    until = time.monotonic() + 60
    while client.get(url).json()["status"] in ("queued", "in_progress"):
        assert time.monotonic() < until, "it never ended"
        time.sleep(0.2)
