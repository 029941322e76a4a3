"""Where a process may die (STACK §4.7), how it is brought there, and how a run ends then at each backend."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.crash.verdict import Books
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer

AT_THE_DOOR = ("start.before_commit", "start.committed", "start.rung")
IN_THE_WORKER = (
    "submit.leased",
    "submit.before_send",
    "submit.accepted",
    "poll.answered",
    "finish.received",
    "finish.inside",
    "finish.committed",
)
WHILE_SENDING = {"submit.before_send", "submit.accepted", "web.asked", "web.taken"}
PRESET_OF = {"agent": "2m", "sonar": "5m", "web": "10m", "responses": "30m"}
"""One portal asks all of them: the depth of a question says whom."""
SET_PRESETS = tuple(
    f"UPDATE research_preset SET backends = '[\"{backend}\"]' WHERE name = '{preset}'"
    for backend, preset in PRESET_OF.items()
)
DEATHS = (
    *((backend, point) for backend in PRESET_OF for point in IN_THE_WORKER),
    ("web", "web.asked"),
    ("web", "web.taken"),
)
"""Backend and point. A web session has two of its own: the question is there, and its thread is known."""
STOPS = (("agent", "cancel.committed"), *((name, "stop.answered") for name in ("agent", "web", "responses")))
UNKNOWN = {
    ("web", "web.asked"),
    ("responses", "submit.before_send"),
    ("responses", "submit.accepted"),
}
"""Nobody can tell whether the upstream has the question, and it may not be asked again: the run fails."""
POLL, LEASE = "0.2", "3"
ADD_SESSION = """
from django.utils import timezone
from proxy.models.accounts import WebAccount
from proxy.protocol.session import TOKEN
from proxy.services.accounts import seal_jar

mine = WebAccount(name="tester", tier="max", parallel_limit=100, jar_version=1, jar_changed_at=timezone.now())
mine.save()
seal_jar(mine, {{TOKEN: "{token}"}})
mine.save()
"""


def armed(folder: Path) -> dict[str, str]:
    """The environment of a server in `folder` that `dying_at` can kill."""
    return {"SONDE_CRASH_AT": f"@{folder / 'crash-at'}"}


@contextmanager
def dying_at(server: RunningServer, point: str) -> Iterator[None]:
    """What is done within brings the running server to `point`, where it dies."""
    file = server.folder / "crash-at"
    file.write_text(point)
    try:
        yield
        assert server.wait() == -signal.SIGKILL
    finally:
        file.unlink()


@contextmanager
def stopped_at(server: RunningServer, point: str, bring: Callable[[], object]) -> Iterator[None]:
    """`bring` brings the running server to `point`, where it stands still while what is within is done, and
    goes on as if no time had passed."""
    file = server.folder / "crash-at"
    file.write_text(f"{point}=stop")
    try:
        bring()
        wait_until_stopped(server.pid)
        yield
    finally:
        file.unlink()
        os.kill(server.pid, signal.SIGCONT)


def wait_until_stopped(pid: int) -> None:
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < until, "it never got there"
        time.sleep(0.05)


def start(server: RunningServer, question: str, key: str, preset: str = "2m") -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/agent",
        json={"input": question, "preset": preset, "idempotency_key": key},
        headers={"Authorization": f"Bearer {server.api_key}"},
        timeout=30,
    )


def cancel(server: RunningServer, run_id: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.post(f"{server.url}/v1/agent/{run_id}/cancel", headers=headers, timeout=30)


def wait_until_running(books: Books, question: str) -> None:
    """Until the upstream has it, and the portal has recorded that."""
    until = time.monotonic() + 30
    while not any(row.state == "running" for row in books.runs() if row.question == question):
        assert time.monotonic() < until, "never submitted"
        time.sleep(0.1)


def upstream_portal(folder: Path) -> RunningServer:
    """Another portal, for the backend `responses` to ask."""
    return RunningServer(folder, SANDBOX_SECONDS="0.5", RESEARCH_POLL_SECONDS="0.1")


def add_session(server: RunningServer, token: str) -> None:
    """A portal that is not told to simulate takes no session of the sandbox at its doors."""
    added = server.manage("shell", "-c", ADD_SESSION.format(token=token))
    assert added.returncode == 0, added.stderr


def asking(sandbox: SandboxServer, upstream: RunningServer) -> dict[str, str]:
    """The environment of a portal that asks both as if they were real: one that is told to simulate asks no
    other portal."""
    return {
        "SONDE_UPSTREAM": "live",
        "PERPLEXITY_API_KEY": sandbox.key,
        "PERPLEXITY_BASE_URL": sandbox.url,
        "PPLX_WEB_URL": sandbox.url,
        "RESPONSES_BACKEND_URL": f"{upstream.url}/v1",
        "RESPONSES_BACKEND_KEY": upstream.api_key,
    }
