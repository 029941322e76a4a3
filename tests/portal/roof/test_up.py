"""`manage.py up` in embedded mode, as its operator meets it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from portal.data_folder import Holder, holder_of
from tests.portal.listener import Listener
from tests.portal.roof.visitor import ask, bearer, end_of, hear_of, is_ready, new_session, open_page
from tests.running_server import RunningServer, ServerError
from tests.services import free_port

pytestmark = [pytest.mark.slow, pytest.mark.embedded]

GRACE_SECONDS = 30


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path, SANDBOX_SECONDS="1") as running:
        yield running


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for the tests that leave it running as it is."""
    with RunningServer(tmp_path_factory.mktemp("up"), SANDBOX_SECONDS="1") as running:
        yield running


def refusal(server: RunningServer) -> str:
    """The one line that a start ended with."""
    with pytest.raises(ServerError) as error:
        server.start()
    said = str(error.value).removeprefix("it ended with code 1: ").strip()
    assert "\n" not in said, said
    return said


def hold_a_request(server: RunningServer) -> socket.socket:
    """A request whose body never comes."""
    client = socket.create_connection(("127.0.0.1", server.port))
    head = (
        "POST /v1/agent HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {server.api_key}",
        "Content-Length: 9",
    )
    client.sendall("\r\n".join((*head, "", "")).encode())
    time.sleep(0.3)
    return client


def test_it_answers_a_research_run_started_by_the_line_it_prints(untouched: RunningServer) -> None:
    line = next(line for line in untouched.output().splitlines() if "curl" in line)
    _, _, url, _, authorization, _, kind, _, body = shlex.split(line)

    headers = dict(header.split(": ", 1) for header in (authorization, kind))
    answer = httpx.post(url, headers=headers, content=body)

    assert answer.status_code == 200, answer.text
    assert end_of(untouched, answer.json()["id"]) == "completed"


def test_it_shows_password_and_key_once(server: RunningServer) -> None:
    assert server.password
    assert server.email == "admin@localhost"
    before = len(server.output())

    server.restart()

    later = server.output()[before:]
    assert server.api_key not in later
    assert server.password not in later
    assert "YOUR_KEY" in later


def test_it_keeps_neither_password_nor_key_in_its_folder(server: RunningServer) -> None:
    end_of(server, ask(server))
    server.terminate()

    kept = b"".join(path.read_bytes() for path in (server.folder / "data").rglob("*") if path.is_file())

    assert server.password.encode() not in kept
    assert server.api_key.encode() not in kept


def test_it_is_quiet_but_for_what_it_has_to_say(server: RunningServer) -> None:
    before = len(server.output())

    server.restart()

    said = server.output()[before:].splitlines()
    assert len([line for line in said if "finishing what is under way" not in line]) <= 9


def test_it_leaves_with_code_0_when_it_is_told_to_stop(server: RunningServer) -> None:
    with open_page(server, new_session(server)), hold_a_request(server):
        run = ask(server)

        started = time.monotonic()
        assert server.terminate(GRACE_SECONDS) == 0
        assert time.monotonic() - started < GRACE_SECONDS

    server.start()
    assert end_of(server, run) == "completed"


def test_it_tells_open_pages_that_it_goes_away(server: RunningServer) -> None:
    with open_page(server, new_session(server)) as page:
        server.terminate()

        with pytest.raises(ConnectionClosed) as closed:
            page.recv(timeout=10)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012


def test_it_ends_at_once_when_it_is_told_twice(server: RunningServer) -> None:
    with hold_a_request(server):
        os.kill(server.pid, signal.SIGTERM)
        time.sleep(0.5)
        os.kill(server.pid, signal.SIGTERM)

        assert server.wait(3) == 128 + signal.SIGTERM


def test_it_refuses_a_second_process_on_the_folder(untouched: RunningServer) -> None:
    second = RunningServer(untouched.folder)

    said = refusal(second)

    assert said.startswith(
        f"sonde: {untouched.folder / 'data'} is in use by another Sonde (process {untouched.pid})"
    )


def test_it_takes_the_folder_of_a_process_that_was_killed(server: RunningServer) -> None:
    server.kill()

    server.start()

    assert is_ready(server)


def test_it_says_that_its_port_is_taken(untouched: RunningServer, tmp_path: Path) -> None:
    other = RunningServer(tmp_path / "other", PORT=str(untouched.port))

    assert refusal(other).startswith(
        f"sonde: cannot listen on 127.0.0.1:{untouched.port}: Address already in use; stop what uses it, or"
    )


def test_it_says_that_the_sandbox_s_port_is_taken(untouched: RunningServer, tmp_path: Path) -> None:
    other = RunningServer(tmp_path / "other", SANDBOX_PORT=str(untouched.port))

    with pytest.raises(ServerError, match=f"SANDBOX_PORT: cannot listen on port {untouched.port}"):
        other.start()


def test_it_knows_no_roles(tmp_path: Path) -> None:
    assert "SONDE_MODE=cluster" in refusal(RunningServer(tmp_path, role="worker"))


def test_it_takes_its_port_from_the_command_line(tmp_path: Path) -> None:
    port = free_port()

    with RunningServer(tmp_path, command=[sys.executable, "manage.py", "up", "--port", str(port)]) as server:
        assert f"is ready: http://127.0.0.1:{port}" in server.output()
        holder = holder_of(server.folder / "data")
        assert holder == Holder(str(server.pid), f"127.0.0.1:{port}", f"http://127.0.0.1:{port}")
        assert httpx.get(f"http://127.0.0.1:{port}/health/live").status_code == 200


def test_it_finds_its_sandbox_again_after_a_restart(tmp_path: Path) -> None:
    with RunningServer(tmp_path, sandbox=False, SANDBOX_SECONDS="3") as server:
        note = server.folder / "data" / "sandbox.json"
        run = ask(server)
        time.sleep(1)
        before = json.loads(note.read_text())

        server.kill()
        server.start()

        assert json.loads(note.read_text()) == before
        assert end_of(server, run) == "completed"


@pytest.mark.parametrize("moment", [0.0, 0.3, 1.0])
def test_it_recovers_from_a_kill_at_any_moment_of_its_first_start(tmp_path: Path, moment: float) -> None:
    server = RunningServer(tmp_path, migrated=False)
    server.launch()
    while "bringing the database" not in server.output():
        time.sleep(0.01)
    time.sleep(moment)
    server.kill()
    server.log.unlink()

    with server:
        key = server.api_key if "API key" in server.output() else None
        assert is_ready(server)
        assert server.manage("doctor").returncode == 0
        if key:
            assert httpx.get(f"{server.url}/api/account", headers=bearer(key)).status_code == 200


def test_it_takes_over_the_key_that_the_operator_chose(tmp_path: Path) -> None:
    with RunningServer(tmp_path, PPLX_PROXY_API_KEY="a-key-of-my-own-choice") as server:
        answer = httpx.get(f"{server.url}/api/account", headers=bearer("a-key-of-my-own-choice"))

        assert answer.json()["email"] == "admin@localhost"


def test_it_stops_at_a_chosen_key_that_is_too_short(tmp_path: Path) -> None:
    server = RunningServer(tmp_path, PPLX_PROXY_API_KEY="short")

    with pytest.raises(ServerError, match="sonde: PPLX_PROXY_API_KEY: must be 16"):
        server.start()


def test_it_stops_at_a_backend_that_does_not_exist(tmp_path: Path) -> None:
    assert refusal(RunningServer(tmp_path, RESEARCH_BACKENDS="agent,telex")) == (
        "sonde: RESEARCH_BACKENDS: there is no backend called telex"
    )


def test_it_starts_with_a_refused_key_and_says_so(tmp_path: Path) -> None:
    with (
        Listener(status=401) as upstream,
        RunningServer(
            tmp_path,
            sandbox=False,
            PERPLEXITY_API_KEY="pplx-wrong-key-0000",
            PERPLEXITY_BASE_URL=upstream.url,
        ) as server,
    ):
        assert f"PERPLEXITY_API_KEY was refused by {upstream.url}" in server.output()
        assert httpx.get(f"{server.url}/health").json()["upstream"] == "live"
        assert server.manage("doctor").returncode == 1
        assert "pplx-wrong-key-0000" not in server.output()


def test_it_stops_when_it_cannot_open_its_secrets(tmp_path: Path) -> None:
    key = "pplx-right-key-1111"
    with (
        Listener() as upstream,
        RunningServer(
            tmp_path, sandbox=False, PERPLEXITY_API_KEY=key, PERPLEXITY_BASE_URL=upstream.url
        ) as server,
    ):
        server.terminate()
        (server.folder / "data" / "encryption.keys").unlink()

        assert "key 'k1' is not the one that sealed it" in refusal(server)


def test_it_tells_the_page_of_a_run_that_moves(untouched: RunningServer) -> None:
    with open_page(untouched, new_session(untouched)) as page:
        hear_of(page, ask(untouched), "completed")


def test_it_works_under_uvicorn_alone(server: RunningServer) -> None:
    server.terminate()
    server.command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(server.port)]

    server.launch()
    while not answers(server):
        time.sleep(0.05)

    assert end_of(server, ask(server)) == "completed"
    server.terminate()


def test_it_refuses_a_second_process_under_uvicorn_too(untouched: RunningServer) -> None:
    other = RunningServer(untouched.folder)
    other.command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(other.port)]
    other.launch()

    assert other.wait() != 0
    assert f"is in use by another Sonde (process {untouched.pid})" in other.output()


def test_it_refuses_an_empty_database_under_uvicorn(tmp_path: Path) -> None:
    server = RunningServer(tmp_path, migrated=False)
    server.command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(server.port)]
    server.launch()

    assert server.wait() != 0
    assert "the database is not up to date: run bin/up once" in server.output()


def answers(server: RunningServer) -> bool:
    try:
        return httpx.get(f"{server.url}/health/live").status_code == 200
    except httpx.TransportError:
        return False
