"""The same deaths in a cluster: PostgreSQL, Valkey, one web process, two workers, two beats."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis

from tests.crash.points import (
    AT_THE_DOOR,
    DEATHS,
    LEASE,
    POLL,
    PRESET_OF,
    SET_PRESETS,
    STOPS,
    WHILE_SENDING,
    add_session,
    armed,
    asking,
    cancel,
    dying_at,
    start,
    stopped_at,
    upstream_portal,
    wait_until_running,
)
from tests.crash.test_crash_points import race
from tests.crash.verdict import Books, check_upstream
from tests.migrated import new_database
from tests.running_server import Role, RunningServer
from tests.sandbox_server import SandboxServer
from tests.services import Valkey

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

AT_ONCE = 4
"""Runs started together, so that the doomed worker of two gets some."""
MOST_WAVES = 10


class Cluster:
    def __init__(
        self,
        folder: Path,
        sandbox: SandboxServer,
        database_url: str,
        valkey: Valkey,
        lease: str = LEASE,
        **more: str,
    ) -> None:
        self.lease = lease
        self.more = more
        self.upstream: Books | None = None
        """Of the portal that `responses` asks."""
        self.folder = folder
        self.sandbox = sandbox
        self.valkey = valkey
        self.database_url = database_url
        self.books = Books(database_url)
        self.web = self._process("web", "web")
        self.workers = [self._process("worker", f"worker{n}") for n in (1, 2)]
        self.beats = [self._process("beat", f"beat{n}") for n in (1, 2)]
        self.expected = 0
        self.deaths_while_sending = 0

    def _process(self, role: Role, name: str) -> RunningServer:
        server = RunningServer(
            self.folder / name,
            mode="cluster",
            role=role,
            sandbox=False,
            database_url=self.database_url,
            redis_url=self.valkey.url,
            SONDE_UPSTREAM="sandbox",
            PERPLEXITY_BASE_URL=self.sandbox.url,
            SECRET_KEY="a secret key that every process of this cluster shares, and nobody else",
            SONDE_ENCRYPTION_KEYS="k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            RESEARCH_POLL_SECONDS=POLL,
            RESEARCH_LEASE_SECONDS=self.lease,
        )
        server.environment |= {**armed(server.folder), **self.more}
        return server

    @property
    def all(self) -> list[RunningServer]:
        return [self.web, *self.workers, *self.beats]

    def start(self) -> None:
        """Whatever does not run."""
        for server in self.all:
            if server.process is None:
                server.start()

    def recount(self) -> None:
        """Take the runs there are for what is expected: an earlier test that failed spoils no later one."""
        self.expected = len(self.books.runs())

    def close(self) -> None:
        for server in self.all:
            server.close()

    def judge(self) -> None:
        rows = self.books.wait_for_the_end(self.expected, 60)
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


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "sandbox.sqlite3", seconds=0.5) as server:
        yield server


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    with new_database() as url:
        with psycopg.connect(url) as database:
            for statement in SET_PRESETS:
                database.execute(statement.encode())
        yield url


@pytest.fixture(scope="module")
def lasting_cluster(
    tmp_path_factory: pytest.TempPathFactory, sandbox: SandboxServer, database_url: str, valkey: Valkey
) -> Iterator[Cluster]:
    with upstream_portal(tmp_path_factory.mktemp("upstream")) as upstream:
        folder = tmp_path_factory.mktemp("cluster")
        cluster = Cluster(folder, sandbox, database_url, valkey, **asking(sandbox, upstream))
        cluster.upstream = Books(upstream.folder / "data" / "sonde.sqlite3")
        try:
            cluster.start()
            cluster.web.manage("grant_credits", "admin@localhost", "2000")
            add_session(cluster.web, sandbox.token)
            yield cluster
        finally:
            cluster.close()


@pytest.fixture
def cluster(lasting_cluster: Cluster) -> Cluster:
    """The same processes for every point; those that died are back."""
    lasting_cluster.start()
    lasting_cluster.recount()
    return lasting_cluster


@pytest.mark.parametrize("point", AT_THE_DOOR)
def test_it_makes_one_run_of_a_start_that_died_at_the_door(cluster: Cluster, point: str) -> None:
    web, question, key = cluster.web, f"Tides at {point}?", f"key {point}"
    with dying_at(web, point), pytest.raises(httpx.TransportError):
        start(web, question, key)
    cluster.start()
    cluster.expected += 1
    assert start(web, question, key).status_code == 200
    cluster.judge()


@pytest.mark.parametrize(("backend", "point"), DEATHS)
def test_it_ends_once_and_charges_once_what_a_worker_died_on(
    cluster: Cluster, backend: str, point: str
) -> None:
    """Start runs until one of the two workers dies at `point`; then all of them must end right."""
    doomed, preset, waves = cluster.workers[0], PRESET_OF[backend], 0
    with dying_at(doomed, point):
        while not doomed.has_ended(seconds=3 if waves else 0):
            # The other worker may have been quicker with all of a wave.
            assert waves < MOST_WAVES, "the doomed worker never got there"
            questions = [f"Tides at {point}, {backend}? {waves} {n}" for n in range(AT_ONCE)]
            with ThreadPoolExecutor(AT_ONCE) as threads:
                answers = list(threads.map(lambda asked: start(cluster.web, asked, asked, preset), questions))
            assert {answer.status_code for answer in answers} == {200}
            cluster.expected += AT_ONCE
            waves += 1
    # Whatever its eight threads were doing when one of them died is open as well.
    cluster.deaths_while_sending += AT_ONCE * waves if point in WHILE_SENDING else AT_ONCE
    cluster.judge()
    asked = [row for row in cluster.books.runs() if f"{point}, {backend}?" in row.question]
    assert {row.backend for row in asked} == {backend}
    assert {row.state for row in asked} <= {"completed", "failed"}


def test_it_lets_no_worker_write_that_stood_still_while_another_took_its_run_over_and_was_killed(
    cluster: Cluster,
) -> None:
    """The fence: it wakes with the answer to a submission in hand, and the run has been sent once more."""
    asleep, other = cluster.workers
    question, later = "Tides of a sleeper?", "Tides after a sleeper?"

    def known() -> list[tuple[Any, ...]]:
        return cluster.books.read(
            f"SELECT upstream_id, kind FROM research_run JOIN research_runevent ON run_id = research_run.id"
            f" WHERE question = '{question}' AND kind = 'running'"
        )

    other.terminate()
    with stopped_at(asleep, "submit.accepted", lambda: start(cluster.web, question, question)):
        other.launch()
        with dying_at(other, "poll.answered"):
            """It takes the run over when its lease has ended."""
        before = known()
        assert len(before) == 1
    # Nobody else is there to answer this one: what the sleeper had in hand it has written by then, or not.
    start(cluster.web, later, later)
    cluster.expected += 2
    cluster.deaths_while_sending += 1
    cluster.books.wait_for_the_end(cluster.expected, 60)
    cluster.start()
    cluster.judge()
    assert known() == before
    assert {row.state for row in cluster.books.runs() if "sleeper" in row.question} == {"completed"}


@pytest.mark.parametrize(("backend", "point"), STOPS)
def test_it_ends_a_stop_that_a_death_interrupted(cluster: Cluster, backend: str, point: str) -> None:
    doomed = cluster.web if point == "cancel.committed" else cluster.workers[0]
    if doomed is not cluster.web:
        cluster.workers[1].terminate()
    question = f"Tides at {point}, {backend}? [sandbox:stuck]"
    run_id = start(cluster.web, question, question, PRESET_OF[backend]).json()["id"]
    wait_until_running(cluster.books, question)
    with dying_at(doomed, point), contextlib.suppress(httpx.TransportError):
        cancel(cluster.web, run_id)
    cluster.expected += 1
    cluster.start()
    cluster.judge()
    assert next(row.state for row in cluster.books.runs() if row.question == question) == "cancelled"


def test_it_ends_each_of_many_races_of_stop_and_finish_once(cluster: Cluster) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: race(cluster.web, number), range(60)))
    cluster.expected += 60
    cluster.judge()
    raced = [row.state for row in cluster.books.runs() if "Tides number" in row.question]
    assert {"completed", "cancelled"} == set(raced)


def test_it_loses_nothing_when_the_broker_is_flushed_and_killed_under_two_hundred_runs(
    cluster: Cluster,
) -> None:
    with ThreadPoolExecutor(8) as threads:
        started = [
            threads.submit(start, cluster.web, f"Tides? {n} [sandbox:duration=3]", f"flood {n}")
            for n in range(200)
        ]
        for answer in started[:80]:
            answer.result()
        flush(cluster.valkey)
        for answer in started[:140]:
            answer.result()
        cluster.valkey.stop(signal.SIGKILL)
        for answer in started:
            assert answer.result().status_code == 200
    cluster.expected += 200
    cluster.valkey.start()
    cluster.judge()
    jobs = [row for row in cluster.books.runs() if "duration=3" in row.question]
    assert {row.state for row in jobs} == {"completed"}
    counts = cluster.sandbox.counts()
    assert all(counts.agent_submissions(row.question) == 1 for row in jobs)


def test_it_leaves_a_ledger_whose_own_check_finds_nothing(cluster: Cluster) -> None:
    """After all of the above: an entry once written stays, and so does what is wrong with it."""
    checked = cluster.web.manage("ledger_check")
    assert checked.returncode == 0, checked.stderr


def flush(valkey: Valkey) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
