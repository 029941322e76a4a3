"""The official conformance suite against a running server; expected-failures.yml says what fails, and why."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.install_node import install_new_node, install_sdks
from tests.mcp.conftest import keys_of
from tests.running_server import RunningServer

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
EXPECTED = Path(__file__).with_name("expected-failures.yml")
SECONDS = 120
LEAST = {"2025-03-26": 0, "2025-06-18": 50, "2025-11-25": 63, "2026-07-28": 147}
"""Every revision that the suite knows, and how many checks pass at least: of the oldest it has one scenario,
about sessions, which a server without any skips."""


@pytest.fixture(scope="module")
def suites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """The suite in every revision, all at once: each waits for the server most of its time."""
    folder = tmp_path_factory.mktemp("conformance")
    program: list[str | Path] = [
        install_new_node(), install_sdks() / "node_modules" / ".bin" / "conformance", "server"
    ]  # fmt: skip
    with ExitStack() as stack:
        server = stack.enter_context(RunningServer(folder, SONDE_MCP_FIXTURES="tests.mcp.fixtures"))
        address = f"{server.url}/{keys_of(server).url}/mcp"
        options = ["--url", address, "--suite", "all", "--expected-failures", str(EXPECTED)]
        started = {
            revision: subprocess.Popen(
                [*program, *options, "--spec-version", revision],
                cwd=folder,
                env={"PATH": os.environ["PATH"]},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for revision in LEAST
        }
        yield started
        for process in started.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize("revision", LEAST)
def test_it_passes_the_official_suite(suites: dict[str, subprocess.Popen[str]], revision: str) -> None:
    said, _ = suites[revision].communicate(timeout=SECONDS)
    failed = "\n".join(line for line in said.splitlines() if "FAILURE" in line or "rror" in line)
    assert suites[revision].returncode == 0, failed + said[-2000:]
    [passed] = re.findall(r"Total: (\d+) passed", said)
    assert int(passed) >= LEAST[revision], failed + said[-2000:]
