"""A start loads what every portal uses; the rest comes with its first use (docs/decisions/0002)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import ROOT
from tests.running_server import RunningServer

LATE = {
    "aiohttp",
    "apprise",
    "curl_cffi",
    "jsonschema",
    "mcp",
    "portal.admin.people",
    "psycopg",
    "redis",
    "requests",
    "rest_framework.views",
    "sandbox",
}
OF_PAGES = {"portal.urls", "markdown_it"}
CHILD = """
import sys, django
django.setup()
import portal.asgi, portal.management.commands.up, proxy.tasks, research.tasks
print(*sys.modules)
from django.urls import reverse
reverse("account_login")
print(*sys.modules)
"""


@pytest.mark.slow
def test_it_starts_without_what_few_portals_use(tmp_path: Path) -> None:
    environment = RunningServer(tmp_path).environment | {"DJANGO_SETTINGS_MODULE": "portal.settings"}
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    at_start, at_first_page = (set(line.split()) for line in done.stdout.splitlines())

    assert at_start & (LATE | OF_PAGES) == set()
    assert at_first_page & LATE == set()
