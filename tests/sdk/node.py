"""The scripts of tests/node: what became of each scenario, played once a run for all of its processes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.browser import ROOT
from tests.environment import run_folder
from tests.install_node import install_new_node, install_sdks
from tests.running_server import RunningServer

SDKS = ("openai", "perplexity")
SECONDS = 240
TOO_LARGE = 30_000_000
"""Characters: more than any door's body may have."""
PEOPLE = """
import json
from decimal import Decimal
from portal.services import keys, users
made = {}
for name, credits, terms in %r:
    user = users.create_user(f"{name}@example.org", credits=Decimal(credits))
    made[name] = keys.create_key(user, name="node", **terms)[1]
print(json.dumps(made))
"""
CAST: tuple[tuple[str, int, dict[str, int]], ...] = (
    ("poor", 0, {}),
    ("hasty", 5, {"requests_per_minute": 1}),
    ("leaver", 5, {}),
)

Results = dict[str, Any]


def played() -> dict[str, Results]:
    """By SDK: the scenarios' results by name. Whoever comes first plays, the others read."""
    folder = run_folder() / "node"
    folder.mkdir(exist_ok=True)
    kept = folder / "results.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(_play(folder)))
        results: dict[str, Results] = json.loads(kept.read_text())
    return results


def _play(folder: Path) -> dict[str, Results]:
    with RunningServer(folder / "server", SANDBOX_SECONDS="0.5", RESEARCH_POLL_SECONDS="0.2") as server:
        return {sdk: _play_one(server, sdk) for sdk in SDKS}


def _play_one(server: RunningServer, sdk: str) -> Results:
    world = {
        "url": server.url,
        "sdks": str(install_sdks()),
        "key": server.api_key,
        "tooLarge": TOO_LARGE,
        **_keys_of_cast(server, sdk),
    }
    done = subprocess.run(
        [install_new_node(), ROOT / "tests" / "node" / f"{sdk}.mjs"],
        env={"PATH": os.environ["PATH"], "SONDE_WORLD": json.dumps(world)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: Results = json.loads(done.stdout)
    return results


def _keys_of_cast(server: RunningServer, sdk: str) -> dict[str, str]:
    """A key each of people of their own, made by one command."""
    people = [(f"{name}-{sdk}", credits, terms) for name, credits, terms in CAST]
    done = server.manage("shell", "-v", "0", "-c", PEOPLE % people)
    assert done.returncode == 0, done.stderr
    keys: dict[str, str] = json.loads(done.stdout)
    return {name.removesuffix(f"-{sdk}"): key for name, key in keys.items()}
