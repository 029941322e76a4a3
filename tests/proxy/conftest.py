from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from proxy.services import glance
from tests.sandbox_server import SandboxServer


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    """What rounds of the test before have seen: its ids may be there again."""
    glance.forget()


@pytest.fixture(scope="session")
def sandbox_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    folder: Path = tmp_path_factory.mktemp("sandbox")
    with SandboxServer(folder / "sandbox.sqlite3", seconds=0.3, chat_seconds=0.1) as server:
        yield server


@pytest.fixture
def sandbox(sandbox_process: SandboxServer, settings: Settings) -> SandboxServer:
    """A real sandbox that this test's web sessions speak to over real HTTP."""
    sandbox_process.reset()
    settings.SONDE_UPSTREAM = "sandbox"
    settings.PERPLEXITY_BASE_URL = sandbox_process.url
    return sandbox_process
