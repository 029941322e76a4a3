"""`manage.py up` in cluster mode: one supervised set of processes, and single roles."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.migrated import new_database
from tests.portal.roof.visitor import ask, bearer, end_of, hear_of, is_ready, new_session, open_page
from tests.running_server import RunningServer
from tests.services import Valkey, free_port

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

Make = Callable[..., RunningServer]


@contextmanager
def a_valkey() -> Iterator[Valkey]:
    valkey = Valkey()
    valkey.start()
    try:
        yield valkey
    finally:
        valkey.close()


@contextmanager
def servers_of(folder: Path, database_url: str, redis_url: str) -> Iterator[Make]:
    """Makes servers of one cluster, each with its own log but one data folder; ended at the end."""
    sandbox_port = str(free_port())
    with ExitStack() as stack:

        def make(**options: str) -> RunningServer:
            server = RunningServer(
                folder,
                mode="cluster",
                database_url=database_url,
                redis_url=redis_url,
                **{"SANDBOX_SECONDS": "1", "SANDBOX_PORT": sandbox_port, **options},  # type: ignore[arg-type]  # roles and environment alike
            )
            return stack.enter_context(closing(server))

        yield make


@pytest.fixture
def make(tmp_path: Path, new_postgres_url: str) -> Iterator[Make]:
    with a_valkey() as valkey, servers_of(tmp_path, new_postgres_url, valkey.url) as make:
        yield make


@pytest.fixture
def doomed(make: Make) -> RunningServer:
    """A cluster of its own, for a test that ends it."""
    server = make()
    server.start()
    return server


@pytest.fixture(scope="module")
def broker() -> Iterator[Valkey]:
    with a_valkey() as valkey:
        yield valkey


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, broker: Valkey) -> Iterator[RunningServer]:
    """One for all tests that leave it running."""
    folder = tmp_path_factory.mktemp("cluster")
    with new_database() as url, servers_of(folder, url, broker.url) as make:
        server = make()
        server.start()
        yield server


def children(server: RunningServer) -> dict[str, int]:
    """The pids of a supervisor's children, by role."""
    # Whole lines whatever the terminal: without one, `ps` may cut them at 80 columns.
    listed = subprocess.run(
        ["ps", "-ww", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = [line.split(maxsplit=2) for line in listed]
    return {
        args.partition("--role ")[2].split()[0]: int(pid)
        for pid, parent, args in rows
        if int(parent) == server.pid and "--role" in args
    }


def account_of(server: RunningServer, key: str) -> int:
    return httpx.get(f"{server.url}/api/account", headers=bearer(key), timeout=20).status_code


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_answers_a_run_with_one_process_of_each_role(cluster: RunningServer) -> None:
    assert set(children(cluster)) == {"web", "worker", "beat"}
    assert is_ready(cluster)
    assert end_of(cluster, ask(cluster)) == "completed"


def test_it_finds_nothing_wrong_with_itself(cluster: RunningServer) -> None:
    assert is_ready(cluster)

    checked = cluster.manage("doctor")

    assert checked.returncode == 0, checked.stdout


def test_it_ends_every_process_when_it_is_told_to_stop(doomed: RunningServer) -> None:
    pids = children(doomed).values()
    with open_page(doomed, new_session(doomed)):
        assert doomed.terminate(30) == 0

    assert not any(map(is_alive, pids))


def test_it_lets_every_process_finish_after_an_interrupt_from_the_terminal(doomed: RunningServer) -> None:
    os.killpg(doomed.pid, signal.SIGINT)

    assert doomed.wait(30) == 0
    assert "ended with code" not in doomed.output()


def test_it_takes_its_processes_with_it_when_it_is_killed(doomed: RunningServer) -> None:
    pids = list(children(doomed).values())

    os.kill(doomed.pid, signal.SIGKILL)

    assert eventually(lambda: not any(map(is_alive, pids)))
    doomed.kill()


@pytest.mark.parametrize("role", ["web", "worker", "beat"])
def test_it_replaces_a_process_that_was_killed(cluster: RunningServer, role: str) -> None:
    before = children(cluster)[role]

    os.kill(before, signal.SIGKILL)

    assert eventually(lambda: children(cluster).get(role, before) != before)
    assert is_ready(cluster)
    assert end_of(cluster, ask(cluster)) == "completed"


def test_it_makes_one_admin_when_two_start_at_once(make: Make) -> None:
    servers = [make(role="web"), make(role="web")]
    for server in servers:
        server.launch()

    assert eventually(lambda: all("is ready" in server.output() for server in servers))

    shown = [server for server in servers if "password" in server.output()]
    assert len(shown) == 1
    for server in servers:
        assert account_of(server, shown[0].api_key) == 200


def test_it_serves_one_sandbox_from_whichever_web_process_lives(make: Make) -> None:
    first, second = make(role="web"), make(role="web")
    for server in (first, second, make(role="worker"), make(role="beat")):
        server.start()

    first.kill()

    assert end_of(second, ask(second, key=first.api_key), first.api_key) == "completed"


def test_it_runs_as_single_roles(make: Make) -> None:
    web, worker, beat = make(role="web"), make(role="worker"), make(role="beat")
    for server in (web, worker, beat):
        server.start()

    run = ask(web)

    assert end_of(web, run) == "completed"
    assert [server.terminate(30) for server in (beat, worker, web)] == [0, 0, 0]


def test_it_says_that_it_has_no_upstream(make: Make) -> None:
    server = make()
    server.environment["SONDE_UPSTREAM"] = "auto"
    server.start()

    assert "none: set PERPLEXITY_API_KEY" in server.output()
    assert httpx.get(f"{server.url}/health").json()["upstream"] == "none"
    assert end_of(server, ask(server)) == "failed"


def test_it_tells_a_page_of_what_its_worker_did(cluster: RunningServer) -> None:
    with open_page(cluster, new_session(cluster)) as page:
        hear_of(page, ask(cluster), "completed")


def test_it_recovers_from_a_broker_that_was_killed_and_lost_everything(
    cluster: RunningServer, broker: Valkey
) -> None:
    with open_page(cluster, new_session(cluster)) as page:
        broker.stop(signal.SIGKILL)
        started = time.monotonic()
        run = ask(cluster)
        assert time.monotonic() - started < 5

        broker.start()

        assert end_of(cluster, run) == "completed"
        hear_of(page, ask(cluster), "completed")


def test_it_waits_for_a_database_that_starts_later(make: Make) -> None:
    server = make()
    database = server.environment["DATABASE_URL"]
    server.launch(DATABASE_URL=f"{database}_absent")
    assert eventually(lambda: "waiting for the database" in server.output())

    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{database.rpartition("/")[2]}_absent"')
    try:
        assert eventually(lambda: "is ready" in server.output())
    finally:
        server.kill()
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(f'DROP DATABASE "{database.rpartition("/")[2]}_absent" WITH (FORCE)')
