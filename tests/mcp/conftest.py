"""One portal for all of these tests, and keys of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.clients import Keys
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer


@pytest.fixture(scope="session")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("portal")
    with RunningServer(folder, SANDBOX_SECONDS="0.5", RESEARCH_POLL_SECONDS="0.2") as server:
        yield server


@pytest.fixture(scope="session")
def perplexity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """Perplexity, for what needs no portal."""
    folder: Path = tmp_path_factory.mktemp("upstream")
    with SandboxServer(folder / "sandbox.sqlite3", seconds=0.3) as server:
        yield server


@pytest.fixture
def sandbox(perplexity: SandboxServer) -> SandboxServer:
    perplexity.reset()
    return perplexity


@pytest.fixture(scope="session")
def keys(portal: RunningServer) -> Keys:
    return keys_of(portal)


def keys_of(portal: RunningServer) -> Keys:
    """All of them in one visit to its folder."""
    made = portal.manage("shell", "-v", "0", "-c", MAKE_KEYS)
    assert made.returncode == 0, made.stderr
    return Keys(plain=portal.api_key, **json.loads(made.stdout.splitlines()[-1]))


MAKE_KEYS = """
import json
from decimal import Decimal
from portal.services.keys import create_key
from portal.services.users import create_user

user = create_user("agents@example.org", credits=Decimal(500))
other = create_user("other@example.org", credits=Decimal(500))
terms = {
    "url": (user, {"scopes": ["research", "chat", "mcp:url"]}),
    "bare": (user, {"scopes": ["mcp"]}),
    "shut": (user, {"scopes": ["research", "chat"]}),
    "slow": (user, {"requests_per_minute": 3}),
    "other": (other, {}),
}
made = {name: create_key(who, name=name, **more)[1] for name, (who, more) in terms.items()}
print(json.dumps(made))
"""
