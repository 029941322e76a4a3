"""The newest TypeScript clients on every transport, all in one process of Node.js (mcp-server §3)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.install_node import LISTS, install_new_node, install_sdks
from tests.mcp.clients import Keys
from tests.mcp.test_clients import NAMES
from tests.running_server import ROOT, RunningServer

pytestmark = pytest.mark.embedded
SECONDS = 120
VISITS = (
    *(f"sdk {transport}" for transport in ("http", "http-url", "sse", "stdio")),
    *(f"client {transport}" for transport in ("http", "http modern", "http-url", "sse", "stdio")),
)


def visits_of(portal: RunningServer, keys: Keys, *, calls: int) -> dict[str, Any]:
    """What each visit was told, or the error that it met."""
    world = {
        "url": portal.url,
        "sdks": str(install_sdks()),
        "key": keys.plain,
        "urlKey": keys.url,
        "calls": calls,
        "stdio": {
            "command": sys.executable,
            "args": [str(ROOT / "sonde_mcp.py")],
            "env": {"SONDE_URL": portal.url, "SONDE_API_KEY": keys.plain},
        },
    }
    done = subprocess.run(
        [install_new_node(), LISTS / "mcp.mjs"],
        env={"PATH": os.environ["PATH"], "SONDE_WORLD": json.dumps(world)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def as_it_should(calls: int) -> dict[str, Any]:
    return {"value": {"tools": NAMES, "answered": calls, "isError": True}}


@pytest.fixture(scope="module")
def visits(portal: RunningServer, keys: Keys) -> dict[str, Any]:
    return visits_of(portal, keys, calls=1)


@pytest.mark.parametrize("visit", VISITS)
def test_it_serves_the_typescript_clients(visits: dict[str, Any], visit: str) -> None:
    assert visits[visit] == as_it_should(1)
