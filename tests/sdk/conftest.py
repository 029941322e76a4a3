"""A portal that really runs, in both modes, and SDKs that really call it over a socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import perplexity
import pytest

from tests.migrated import new_database
from tests.running_server import Role, RunningServer
from tests.services import free_port, running

TERMINAL = ("completed", "failed", "incomplete", "cancelled")
PATIENCE = 60.0

Poll = Callable[[Any, str], Any]


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("embedded", marks=pytest.mark.embedded),
        pytest.param("cluster", marks=pytest.mark.cluster),
    ],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("server")
    with ExitStack() as stack:
        if request.param == "cluster":
            servers = cluster(
                folder, stack.enter_context(new_database()), stack.enter_context(running("valkey"))
            )
        else:
            servers = [RunningServer(folder)]
        for server in servers:
            server.environment |= {"SANDBOX_SECONDS": "0.5", "RESEARCH_POLL_SECONDS": "0.2"}
            stack.enter_context(server)
        yield servers[0]


def cluster(folder: Path, database_url: str, redis_url: str) -> list[RunningServer]:
    """With a database and a broker of its own: nobody else's messages reach its worker. The web process is
    the first."""
    roles: tuple[Role, ...] = ("web", "worker", "beat")
    port = str(free_port())
    return [
        RunningServer(
            folder,
            mode="cluster",
            role=role,
            database_url=database_url,
            redis_url=redis_url,
            SANDBOX_PORT=port,
        )
        for role in roles
    ]


@pytest.fixture
def by_openai(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=server.api_key, base_url=f"{server.url}/v1") as client:
        yield client


@pytest.fixture
def by_perplexity(server: RunningServer) -> Iterator[perplexity.Perplexity]:
    with perplexity.Perplexity(api_key=server.api_key, base_url=server.url) as client:
        yield client


@pytest.fixture
def poll() -> Poll:
    """The seed's own loop, with a shorter sleep and an end."""

    def until_terminal(client: Any, run: str) -> Any:
        until = time.monotonic() + PATIENCE
        response = client.responses.retrieve(run)
        while response.status not in TERMINAL:
            assert time.monotonic() < until, f"it is still {response.status}"
            time.sleep(0.1)
            response = client.responses.retrieve(run)
        return response

    return until_terminal


NEW_KEY = """
from django.core.management import call_command
call_command("create_user", {email!r}, "--credits", "{credits}")
call_command("create_api_key", {email!r}, "--name", "sdk", *{words!r})
"""


def new_key(server: RunningServer, *, credits: int, **options: str) -> str:
    """The key of a new user with exactly `credits`; both commands in one process."""
    email = f"user{time.monotonic_ns()}@example.org"
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    made = server.manage("shell", "-v", "0", "-c", NEW_KEY.format(email=email, credits=credits, words=words))
    assert made.returncode == 0, made.stderr
    return made.stdout.split()[-1]
