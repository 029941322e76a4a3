"""What became of each scenario of the four SDKs, played once a run on one server for all of its processes.

Node's are the scripts of tests/node, Python's are in tests/sdk/python.py.
"""

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
from tests.sdk import python

SDKS = ("openai", "perplexity")
LANGUAGES = ("python", "node")
SECONDS = 300
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


class Scenes:
    """The results of one SDK, each once it is seen that its scenario did not crash."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def __getitem__(self, name: str) -> Any:
        result = self._results[name]
        assert "crash" not in result, result["crash"]
        return result["value"]


def error_of(caught: dict[str, Any]) -> dict[str, Any]:
    """openai unwraps the envelope, Perplexity's SDK shows the whole body."""
    body: dict[str, Any] = caught["body"]
    found: dict[str, Any] = body.get("error", body)
    return found


def played() -> dict[str, Results]:
    """By SDK: the scenarios' results by name. Whoever comes first plays, the others read."""
    folder = run_folder() / "sdks"
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
        return {f"{sdk}-{language}": play(server, sdk) for language, play in PLAYERS.items() for sdk in SDKS}


def _world(server: RunningServer, player: str) -> dict[str, Any]:
    return {
        "url": server.url,
        "key": server.api_key,
        "tooLarge": TOO_LARGE,
        **_keys_of_cast(server, player),
    }


def _by_python(server: RunningServer, sdk: str) -> Results:
    return python.play(sdk, _world(server, f"{sdk}-python"))


def _by_node(server: RunningServer, sdk: str) -> Results:
    world = {"sdks": str(install_sdks()), **_world(server, f"{sdk}-node")}
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


def _keys_of_cast(server: RunningServer, player: str) -> dict[str, str]:
    """A key each of people of their own, made by one command."""
    people = [(f"{name}-{player}", credits, terms) for name, credits, terms in CAST]
    done = server.manage("shell", "-v", "0", "-c", PEOPLE % people)
    assert done.returncode == 0, done.stderr
    keys: dict[str, str] = json.loads(done.stdout)
    return {name.removesuffix(f"-{player}"): key for name, key in keys.items()}


PLAYERS = {"python": _by_python, "node": _by_node}
