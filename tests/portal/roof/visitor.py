"""A user of a running server: by key over REST, by session over a page's socket."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.running_server import RunningServer

END_SECONDS = 60.0
NEW_SESSION = """
from django.test import Client
from portal.models.users import User
client = Client()
client.force_login(User.objects.get(is_staff=True))
print("session", client.cookies["sessionid"].value)
"""


def ask(server: RunningServer, question: str = "Why?", key: str = "", **more: Any) -> str:
    """Start a run; its id."""
    answer = httpx.post(
        f"{server.url}/v1/agent",
        headers=bearer(key or server.api_key),
        json={"preset": "2m", "input": question, **more},
        timeout=20,
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def status(server: RunningServer, run: str, key: str = "") -> str:
    answer = httpx.get(f"{server.url}/v1/agent/{run}", headers=bearer(key or server.api_key), timeout=20)
    return str(answer.json()["status"])


def end_of(server: RunningServer, run: str, key: str = "") -> str:
    """The final status of a run."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        if (now := status(server, run, key)) not in ("queued", "in_progress"):
            return now
        time.sleep(0.2)
    raise AssertionError(f"{run} has not ended: {server.output()[-2000:]}")


def is_ready(server: RunningServer) -> bool:
    """Whether it says so within a moment: its sweeper sweeps once a second."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if httpx.get(f"{server.url}/health/ready", timeout=20).status_code == 200:
            return True
        time.sleep(0.1)
    return False


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def new_session(server: RunningServer) -> str:
    """The cookie of a session of the first admin."""
    made = server.manage("shell", "--no-imports", "-c", NEW_SESSION)
    assert made.returncode == 0, made.stderr
    return made.stdout.partition("session ")[2].strip()


def open_page(server: RunningServer, session: str) -> ClientConnection:
    return connect(
        f"ws://127.0.0.1:{server.port}/ws/",
        origin=Origin(server.url),
        additional_headers={"Cookie": f"sessionid={session}"},
        proxy=None,
    )


def hear_of(page: ClientConnection, run: str, state: str) -> None:
    """Wait until the page is told that the run is in this state."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        event = json.loads(page.recv(timeout=END_SECONDS))
        if (event.get("id"), event.get("state")) == (run, state):
            return
    raise AssertionError(f"the page never heard that {run} is {state}")
