"""The scripts of tests/node, run once a session each: scenarios by name, and what became of them."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tests.browser import ROOT
from tests.install_node import install_new_node, install_sdks
from tests.running_server import RunningServer

SECONDS = 120
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


def keys_of_cast(server: RunningServer, sdk: str) -> dict[str, str]:
    """A key each of people of their own, made by one command."""
    people = [(f"{name}-{sdk}", credits, terms) for name, credits, terms in CAST]
    done = server.manage("shell", "-v", "0", "-c", PEOPLE % people)
    assert done.returncode == 0, done.stderr
    keys: dict[str, str] = json.loads(done.stdout)
    return {name.removesuffix(f"-{sdk}"): key for name, key in keys.items()}


def play(server: RunningServer, sdk: str) -> dict[str, Any]:
    """Results of tests/node/SDK.mjs by scenario, and the `world` it ran in."""
    folder = install_sdks()
    world = {"url": server.url, "sdks": str(folder), "key": server.api_key, **keys_of_cast(server, sdk)}
    done = subprocess.run(
        [install_new_node(), ROOT / "tests" / "node" / f"{sdk}.mjs"],
        env={"PATH": os.environ["PATH"], "SONDE_WORLD": json.dumps(world)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return {**results, "world": {"value": world}}
