"""A portal that dies while it streams owes nobody anything when it is back (STACK §4.7, point 19)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.running_server import RunningServer
from tests.sdk.test_chat import asking, client_of, credits_of

pytestmark = [pytest.mark.slow, pytest.mark.embedded]


def begin_to_read(server: RunningServer) -> openai.Stream[ChatCompletionChunk]:
    """A long answer whose first word has come."""
    stream: openai.Stream[ChatCompletionChunk] = client_of(server, server.api_key).chat.completions.create(
        **asking("Why? [sandbox:duration=60] [sandbox:pieces=600]"), stream=True
    )
    for chunk in stream:
        if chunk.choices[0].delta.content:
            return stream
    raise AssertionError("it said nothing")


def test_it_leaves_no_reservation_when_it_is_killed_in_a_stream(tmp_path: Path) -> None:
    with RunningServer(tmp_path, SANDBOX_SECONDS="0.5") as server:
        before = credits_of(server, server.api_key)
        begin_to_read(server)
        assert credits_of(server, server.api_key)["reserved"] == 0.1

        server.kill()
        server.start()

        deadline = time.monotonic() + 15
        while credits_of(server, server.api_key) != before:
            assert time.monotonic() < deadline, credits_of(server, server.api_key)
            time.sleep(0.2)
        assert server.manage("ledger_check").returncode == 0
        assert client_of(server, server.api_key).chat.completions.create(**asking("Why?")).choices


def test_it_tells_its_clients_when_it_is_stopped_and_charges_what_they_had(tmp_path: Path) -> None:
    with RunningServer(tmp_path, SANDBOX_SECONDS="0.5") as server, ThreadPoolExecutor(12) as people:
        before = credits_of(server, server.api_key)["balance"]
        streams = list(people.map(lambda _: begin_to_read(server), range(12)))
        assert server.process is not None
        server.process.terminate()
        for told in people.map(how_it_ends, streams):
            assert "restarting" in told
        server.wait()

        server.start()
        assert httpx.get(f"{server.url}/health/ready").is_success
        assert credits_of(server, server.api_key) == {"balance": round(before - 1.2, 1), "reserved": 0}


def how_it_ends(stream: openai.Stream[ChatCompletionChunk]) -> str:
    with pytest.raises(openai.APIError) as broken:
        list(stream)
    return broken.value.message
