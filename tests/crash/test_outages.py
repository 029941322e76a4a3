"""What a portal stands on goes away and comes back: nothing is lost, doubled or answered with a 500.

Points 15 and 16 of STACK §4.7: a broker that is full or frozen, PostgreSQL restarted under load,
SQLite locked by a backup; and workers that are away while beats ring.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import httpx
import pytest
import redis

from tests.crash.points import start
from tests.crash.test_cluster import Cluster
from tests.crash.test_crash_points import Portal
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer
from tests.services import Postgres, Valkey

pytestmark = pytest.mark.slow

AT_ONCE = 4
PATIENCE = 90.0
A_WAIT = 1.0
"""Seconds; whoever waits for the broker waits longer (settings: 2 s to connect, 5 s for an answer)."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "sandbox.sqlite3", seconds=0.5) as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def lasting_cluster(
    tmp_path_factory: pytest.TempPathFactory, sandbox: SandboxServer, postgres: Postgres, valkey: Valkey
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    # Longer than an outage: who has the answer then has the lease as well, and nothing is sent twice.
    cluster = Cluster(folder, sandbox, postgres.url, valkey, lease="20")
    try:
        cluster.start()
        cluster.web.manage("grant_credits", "admin@localhost", "1000")
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(lasting_cluster: Cluster) -> Cluster:
    """The same processes for every outage, and a count of runs that no earlier test can spoil."""
    lasting_cluster.recount()
    return lasting_cluster


def start_all(server: RunningServer, questions: Sequence[str]) -> float:
    """Start a run for each, one after the other; what most of them took at most, in seconds.

    Whoever waits for the broker waits at every start; a single slow one is a busy machine's.
    """
    took = []
    for question in questions:
        began = time.monotonic()
        assert start(server, question, question).status_code == 200
        took.append(time.monotonic() - began)
    return median(took)


def insist(server: RunningServer, question: str) -> set[int]:
    """Start one run, as a client that keeps its key and does as `Retry-After` says; what it was answered."""
    seen: set[int] = set()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            answer = start(server, question, question)
            seen.add(answer.status_code)
            if answer.status_code == 200:
                return seen
            assert answer.status_code == 503, answer.text
            assert answer.headers["Retry-After"]
        time.sleep(0.3)
    raise AssertionError(f"no run for {question}: {seen}")


@pytest.mark.cluster
def test_it_loses_nothing_when_postgresql_is_restarted_under_load(
    cluster: Cluster, postgres: Postgres
) -> None:
    questions = [f"Tides at a restart? {n} [sandbox:duration=2] [sandbox:slow=0.4]" for n in range(60)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = [threads.submit(insist, cluster.web, question) for question in questions]
        for _ in range(2):
            time.sleep(1.5)
            postgres.stop(signal.SIGINT)
            time.sleep(1)
            postgres.start()
        seen = set().union(*(answer.result() for answer in answers))
    assert seen <= {200, 503}
    cluster.expected += len(questions)
    cluster.judge()
    assert {row.state for row in cluster.books.runs()} == {"completed"}


@pytest.mark.cluster
def test_it_takes_runs_while_the_broker_is_full_and_finishes_them_afterwards(
    cluster: Cluster, valkey: Valkey
) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        try:
            assert start_all(cluster.web, [f"Tides while full? {number}" for number in range(10)]) < A_WAIT
            time.sleep(2)
        finally:
            client.config_set("maxmemory", "0")
    cluster.expected += 10
    cluster.judge()


@pytest.mark.cluster
def test_it_does_not_wait_for_a_broker_that_is_frozen(cluster: Cluster, valkey: Valkey) -> None:
    assert valkey.process is not None
    valkey.process.send_signal(signal.SIGSTOP)
    try:
        assert start_all(cluster.web, [f"Tides while frozen? {number}" for number in range(10)]) < A_WAIT
    finally:
        valkey.process.send_signal(signal.SIGCONT)
    cluster.expected += 10
    cluster.judge()


@pytest.mark.cluster
def test_it_piles_up_no_messages_while_every_worker_is_away(cluster: Cluster, valkey: Valkey) -> None:
    """Sixty runs are due, two beats ring: each sweep is one message, and no run has one of its own."""
    pids = [worker.pid for worker in cluster.workers]
    for pid in pids:
        os.killpg(pid, signal.SIGSTOP)
    try:
        start_all(cluster.web, [f"Tides while away? {number}" for number in range(60)])
        time.sleep(8)
        with redis.Redis.from_url(valkey.url) as client:
            waiting = int(client.llen("sonde.drive"))
    finally:
        for pid in pids:
            os.killpg(pid, signal.SIGCONT)
    assert 0 < waiting < 60 + 60, "more than a sweep for each second and beat, and a ring for each start"
    cluster.expected += 60
    cluster.judge()


@pytest.mark.cluster
def test_it_takes_nothing_from_a_living_worker_when_another_was_killed_and_is_back(
    cluster: Cluster, sandbox: SandboxServer
) -> None:
    """The lease: who starts finds runs whose time has come, and which somebody else is sending."""
    questions = [f"Tides in other hands? {number} [sandbox:slow=6]" for number in range(AT_ONCE)]
    cluster.workers[1].kill()
    start_all(cluster.web, questions)
    until = time.monotonic() + PATIENCE
    while not all(sandbox.counts().agent_submissions(question) for question in questions):
        assert time.monotonic() < until, "never sent"
        time.sleep(0.05)
    cluster.start()
    cluster.expected += AT_ONCE
    cluster.judge()
    counts = sandbox.counts()
    assert [counts.agent_submissions(question) for question in questions] == [1] * AT_ONCE


@pytest.mark.embedded
def test_it_outlasts_a_lock_on_its_database(tmp_path: Path, sandbox: SandboxServer) -> None:
    """A backup that locks SQLite for longer than anybody waits: a 503, and what was sent is recorded."""
    portal = Portal(tmp_path, sandbox, "agent")
    with portal.server as server:
        questions = [f"Tides behind a lock? {n} [sandbox:slow=1]" for n in range(3)]
        for question in questions:
            assert start(server, question, question).status_code == 200
        time.sleep(0.5)
        seen: set[int] = set()
        late = threading.Thread(target=lambda: seen.update(insist(server, "Tides, late?")))
        with contextlib.closing(
            sqlite3.connect(tmp_path / "data" / "sonde.sqlite3", isolation_level=None, timeout=10)
        ) as backup:
            backup.execute("BEGIN IMMEDIATE")
            late.start()
            time.sleep(23)
            backup.execute("ROLLBACK")
        late.join()
        assert seen == {200, 503}
        portal.expected = 4
        portal.judge()
        assert {row.state for row in portal.books.runs()} == {"completed"}
