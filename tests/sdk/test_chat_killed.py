"""A portal that dies while it streams owes nobody anything when it is back (STACK §4.7, point 19)."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import openai
import pytest

from tests.running_server import RunningServer
from tests.sdk.test_chat import asking, client_of, credits_of

pytestmark = [pytest.mark.slow, pytest.mark.embedded]


def read_until_text(server: RunningServer) -> None:
    stream = client_of(server, server.api_key).chat.completions.create(
        **asking("Why? [sandbox:duration=60] [sandbox:pieces=600]"), stream=True
    )
    for chunk in stream:
        if chunk.choices[0].delta.content:
            return


def test_it_leaves_no_reservation_when_it_is_killed_in_a_stream(tmp_path: Path) -> None:
    with RunningServer(tmp_path, SANDBOX_SECONDS="0.5") as server:
        before = credits_of(server, server.api_key)
        read_until_text(server)
        assert credits_of(server, server.api_key)["reserved"] == 0.1

        server.kill()
        server.start()

        deadline = time.monotonic() + 15
        while credits_of(server, server.api_key) != before:
            assert time.monotonic() < deadline, credits_of(server, server.api_key)
            time.sleep(0.2)
        assert server.manage("ledger_check").returncode == 0
        assert client_of(server, server.api_key).chat.completions.create(**asking("Why?")).choices


def test_it_tells_its_clients_when_it_is_stopped_in_a_stream(tmp_path: Path) -> None:
    with RunningServer(tmp_path, SANDBOX_SECONDS="0.5") as server:
        stream = client_of(server, server.api_key).chat.completions.create(
            **asking("Why? [sandbox:duration=60] [sandbox:pieces=600]"), stream=True
        )
        next(stream)
        assert server.process is not None
        server.process.terminate()
        with pytest.raises(openai.APIError, match="restarting"):
            list(stream)
        server.wait()

        server.start()
        assert httpx.get(f"{server.url}/health/ready").is_success
        assert credits_of(server, server.api_key)["reserved"] == 0
