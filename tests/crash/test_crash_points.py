"""kill -9 at each crash point of STACK §4.7, in a really running portal, at every backend (points 1-12).

The process that reaches the point kills itself with SIGKILL; the portal is started again, and
the database and the upstream's counters say what became of the runs.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.crash.points import (
    AT_THE_DOOR,
    DEATHS,
    LEASE,
    POLL,
    PRESET_OF,
    SET_PRESETS,
    STOPS,
    UNKNOWN,
    WHILE_SENDING,
    add_session,
    armed,
    asking,
    cancel,
    dying_at,
    start,
    upstream_portal,
    wait_until_running,
)
from tests.crash.verdict import Books, Row, check_upstream
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.slow, pytest.mark.embedded]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "sandbox.sqlite3", seconds=0.5) as server:
        yield server


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with upstream_portal(tmp_path_factory.mktemp("upstream")) as server:
        yield server


class Portal:
    """One embedded portal that is killed and started again, over and over, on one folder."""

    def __init__(self, folder: Path, sandbox: SandboxServer, backend: str, **more: str) -> None:
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
        self.server.environment |= more
        self.upstream: Books | None = None
        """Of the portal that `responses` asks."""
        self.books = Books(folder / "data" / "sonde.sqlite3")
        self.expected = 0
        self.deaths_while_sending = 0

    def judge(self) -> None:
        rows = self.books.wait_for_the_end(self.expected, 40)
        self.books.check_money(rows)
        self.books.check_events()
        self.books.check_places()
        passed_on = [row.question for row in self.upstream.runs()] if self.upstream else []
        check_upstream(
            rows,
            self.sandbox.counts(),
            deaths_while_sending=self.deaths_while_sending,
            passed_on=passed_on,
        )

    def run(self, question: str) -> Row:
        return next(row for row in self.books.runs() if row.question == question)


@pytest.fixture(scope="module")
def lasting_portal(
    tmp_path_factory: pytest.TempPathFactory, sandbox: SandboxServer, upstream: RunningServer
) -> Iterator[Portal]:
    folder = tmp_path_factory.mktemp("portal")
    portal = Portal(folder, sandbox, "agent", **armed(folder), **asking(sandbox, upstream))
    portal.upstream = Books(upstream.folder / "data" / "sonde.sqlite3")
    with portal.server as server:
        server.manage("grant_credits", "admin@localhost", "1000")
        add_session(server, sandbox.token)
        with contextlib.closing(sqlite3.connect(folder / "data" / "sonde.sqlite3", timeout=20)) as database:
            for statement in SET_PRESETS:
                database.execute(statement)
            database.commit()
        yield portal


@pytest.fixture
def portal(lasting_portal: Portal) -> Portal:
    """The same folder for every point, so that the books of all of them must balance."""
    if lasting_portal.server.process is None:
        lasting_portal.server.start()
    lasting_portal.expected = len(lasting_portal.books.runs())
    return lasting_portal


@pytest.mark.parametrize("point", AT_THE_DOOR)
def test_it_makes_one_run_of_a_start_that_died_at_the_door(portal: Portal, point: str) -> None:
    server, question, key = portal.server, f"Tides at {point}?", f"key {point}"
    with dying_at(server, point), pytest.raises(httpx.TransportError):
        start(server, question, key)
    server.start()
    portal.expected += 1
    assert start(server, question, key).status_code == 200
    portal.judge()


@pytest.mark.parametrize(("backend", "point"), DEATHS)
def test_it_ends_once_and_charges_once_what_a_worker_died_on(
    portal: Portal, backend: str, point: str
) -> None:
    question = f"Tides at {point}, {backend}?"
    # The worker may be quicker than the answer.
    with dying_at(portal.server, point), contextlib.suppress(httpx.TransportError):
        start(portal.server, question, question, PRESET_OF[backend])
    portal.expected += 1
    portal.deaths_while_sending += point in WHILE_SENDING
    portal.server.start()
    portal.judge()
    run, notes = portal.run(question), "".join(portal.run(question).notes)
    is_unknown = (backend, point) in UNKNOWN
    assert (run.backend.split("-")[0], run.state) == (backend, "failed" if is_unknown else "completed")
    assert ("credits were returned" in notes) is is_unknown
    assert ("was found there" in notes) is (backend == "web" and point in ("web.taken", "submit.accepted"))


@pytest.mark.parametrize(("backend", "point"), STOPS)
def test_it_ends_a_stop_that_a_death_interrupted(portal: Portal, backend: str, point: str) -> None:
    question = f"Tides at {point}, {backend}? [sandbox:stuck]"
    run_id = start(portal.server, question, question, PRESET_OF[backend]).json()["id"]
    wait_until_running(portal.books, question)
    with dying_at(portal.server, point), contextlib.suppress(httpx.TransportError):
        cancel(portal.server, run_id)
    portal.expected += 1
    portal.server.start()
    portal.judge()
    assert portal.run(question).state == "cancelled"
    if backend == "web":
        entries = [one for one in portal.sandbox.web_entries() if one["question"] == question]
        assert [one["stopped_at"] is None for one in entries] == [False]


def test_it_ends_each_of_many_races_of_stop_and_finish_once(portal: Portal) -> None:
    """Point 12, with the real worker: stops that arrive around the moment of completion."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: race(portal.server, n), range(200)))
    portal.expected += 200
    portal.judge()
    raced = [row.state for row in portal.books.runs() if "Tides number" in row.question]
    assert {"completed", "cancelled"} == set(raced)


def test_it_leaves_a_ledger_whose_own_check_finds_nothing(portal: Portal) -> None:
    """After all of the above: an entry once written stays, and so does what is wrong with it."""
    assert portal.server.manage("ledger_check").returncode == 0


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
