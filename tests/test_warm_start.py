"""Programs that are forked are as good as started ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests import warm_start
from tests.portal.roof.test_settings import CLUSTER
from tests.test_suite import is_free_soon

pytestmark = pytest.mark.slow
TELL = r"""
import logging, os, sys, time
from django.conf import settings
from django.core.cache import caches
from django.db import connections
from django.utils.timezone import get_default_timezone
from portal.celery import app, streams

print(connections.settings, caches.settings)
names = sorted(name for name in dir(settings) if name.isupper())
print(*[(name, getattr(settings, name)) for name in names], sep="\n")
print(app.conf.broker_url, app.conf.beat_schedule, streams.conf.broker_url)
print(sorted(os.environ.items()), sys.argv, os.getcwd(), time.tzname, get_default_timezone())
print(logging.getLogger().handlers[0].level, logging.getLogger().level)
"""
OTHER = {
    "SONDE_ENCRYPTION_KEYS": "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "SECRET_KEY": "a secret key that both processes are given, so that they show the same",
    "PUBLIC_URL": "https://sonde.example.org",
    "RESEARCH_LEASE_SECONDS": "7",
}


@pytest.mark.parametrize("mode", [{}, CLUSTER], ids=["embedded", "cluster"])
def test_it_knows_what_a_real_start_knows(tmp_path: Path, mode: dict[str, str]) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "SONDE_ENV_FILE": "",
        "DATA_DIR": str(tmp_path),
        **OTHER,
        **mode,
    }
    words = ["manage.py", "shell", "-v", "0", "-c", TELL]

    forked = warm_start.run(words, environment, timeout=60)

    real = subprocess.run(
        [sys.executable, *words],
        cwd=warm_start.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (forked.returncode, forked.stderr) == (0, real.stderr)
    assert forked.stdout.splitlines() == real.stdout.splitlines()


def test_it_tells_how_each_has_ended() -> None:
    environment = {"PATH": os.environ["PATH"], "SONDE_ENV_FILE": ""}
    wrong = warm_start.run(["manage.py", "doctor"], environment | {"SONDE_MODE": "cloud"}, timeout=60)
    with TemporaryFile() as file:
        files = {"stdin": file, "stdout": file, "stderr": file}
        waiting = warm_start.start(
            ["manage.py", "shell", "-c", "import time; time.sleep(60)"], environment, **files
        )
    assert waiting.poll() is None
    waiting.kill()

    assert wrong.returncode == 1
    assert wrong.stderr.startswith("sonde: SONDE_MODE: must be one of")
    assert waiting.wait(20) == -signal.SIGKILL


OWNER = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from tests import warm_start
from tests.running_server import RunningServer

warm_start.forks.allow(ExitStack())
server = RunningServer(Path(sys.argv[1]))
server.start()
print(server.port, flush=True)
time.sleep(60)
"""


@pytest.mark.embedded
def test_it_leaves_no_portal_behind_when_the_run_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, cwd=warm_start.ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        owner.kill()
    assert is_free_soon(port)
