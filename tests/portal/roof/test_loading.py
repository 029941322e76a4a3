"""A start loads what every portal uses; the rest comes with its first use (docs/decisions/0002)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.environment import ROOT
from tests.running_server import RunningServer

LATE = {
    "aiohttp",
    "apprise",
    "curl_cffi",
    "jsonschema",
    "markdown_it",
    "mcp",
    "portal.admin.people",
    "portal.urls",
    "psycopg",
    "redis",
    "requests",
    "rest_framework.views",
    "sandbox",
}
CHILD = """
import sys, django
django.setup()
import portal.asgi, portal.management.commands.up, proxy.tasks, research.tasks
print(*sys.modules)
"""


def test_it_starts_without_what_few_portals_use(tmp_path: Path) -> None:
    environment = RunningServer(tmp_path).environment | {"DJANGO_SETTINGS_MODULE": "portal.settings"}
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)

    assert LATE.intersection(done.stdout.split()) == set()
