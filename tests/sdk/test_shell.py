"""The seed's shell examples as printed: only address, key, id and the length of the sleep differ."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.running_server import RunningServer

pytestmark = pytest.mark.slow
START = """\
curl -X POST https://pocketsearch.ai/v1/agent \\
  -H "Authorization: Bearer $POCKET_SEARCH_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{
    "input": "State of solid state battery manufacturing, 2026",
    "preset": "high"
  }'
"""
LOOP = """\
while true; do
  curl -s https://pocketsearch.ai/v1/agent/resp_7f3d… \\
    -H "Authorization: Bearer $POCKET_SEARCH_KEY" \\
    | grep -q '"status": "\\(completed\\|failed\\|incomplete\\|cancelled\\)"' \\
    && break
  sleep 15
done
"""
CANCEL = """\
curl -X POST https://pocketsearch.ai/v1/agent/resp_7f3d…/cancel \\
  -H "Authorization: Bearer $POCKET_SEARCH_KEY"
"""
READ = """\
curl -s https://pocketsearch.ai/v1/agent/resp_7f3d… -H "Authorization: Bearer $POCKET_SEARCH_KEY"
"""


def shell(server: RunningServer, script: str, run: str = "") -> str:
    script = script.replace("https://pocketsearch.ai", server.url).replace("sleep 15", "sleep 0.2")
    done = subprocess.run(
        ["bash", "-euc", script.replace("resp_7f3d…", run)],
        env={"PATH": os.environ["PATH"], "POCKET_SEARCH_KEY": server.api_key},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_it_runs_the_seed_s_shell_loop(server: RunningServer) -> None:
    started = json.loads(shell(server, START))
    assert started["status"] == "queued"
    shell(server, LOOP, started["id"])
    done = json.loads(shell(server, READ, started["id"]))
    assert done["status"] == "completed"
    assert done["output_text"].startswith("# ")


def test_it_stops_a_run_from_the_shell(server: RunningServer) -> None:
    started = json.loads(shell(server, START.replace("2026", "2026 [sandbox:stuck]")))
    assert json.loads(shell(server, CANCEL, started["id"])) == {
        "response_id": started["id"],
        "status": "cancelling",
    }
    shell(server, LOOP, started["id"])
    assert json.loads(shell(server, READ, started["id"]))["status"] == "cancelled"
