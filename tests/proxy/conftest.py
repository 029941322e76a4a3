from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.sandbox_server import SandboxServer


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
