"""The official conformance suite against a running server; expected-failures.yml says what fails, and why."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install_node import install_new_node, install_sdks
from tests.mcp.conftest import keys_of
from tests.running_server import RunningServer

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
EXPECTED = Path(__file__).with_name("expected-failures.yml")
SECONDS = 120


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("conformance")
    with RunningServer(folder, SONDE_MCP_FIXTURES="tests.mcp.fixtures") as server:
        yield f"{server.url}/{keys_of(server).url}/mcp"


@pytest.mark.parametrize("revision", ["2026-07-28"])
def test_it_passes_the_official_suite(address: str, revision: str, tmp_path: Path) -> None:
    suite = install_sdks() / "node_modules" / ".bin" / "conformance"
    options = ["--url", address, "--spec-version", revision, "--expected-failures", str(EXPECTED)]
    done = subprocess.run(
        [install_new_node(), suite, "server", *options],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "tools-call-with-progress: 2 passed, 0 failed" in done.stdout
