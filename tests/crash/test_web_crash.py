"""kill -9 around a web session's taking a run: it is found where its thread was known, else refunded."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.crash.verdict import Books, Row
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.slow, pytest.mark.embedded]


class Portal:
    """One embedded portal that researches through web sessions alone; its books must always balance."""

    def __init__(self, folder: Path, sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        self.server = RunningServer(
            folder,
            sandbox=False,
            SONDE_UPSTREAM="sandbox",
            PERPLEXITY_BASE_URL=sandbox.url,
            RESEARCH_BACKENDS="web",
            RESEARCH_POLL_SECONDS="0.2",
            RESEARCH_LEASE_SECONDS="3",
        )
        self.books = Books(folder / "data" / "sonde.sqlite3")
        self.expected = 0

    def start(self, question: str) -> str:
        """The run's id; "" where the worker was quicker than the answer."""
        self.expected += 1
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.post(
                f"{self.server.url}/v1/agent",
                json={"input": question, "preset": "2m", "idempotency_key": question},
                headers={"Authorization": f"Bearer {self.server.api_key}"},
                timeout=30,
            )
            return str(answer.json()["id"])
        return ""

    def cancel(self, run_id: str) -> None:
        headers = {"Authorization": f"Bearer {self.server.api_key}"}
        with contextlib.suppress(httpx.TransportError):
            httpx.post(f"{self.server.url}/v1/agent/{run_id}/cancel", headers=headers, timeout=30)

    def judge(self, question: str) -> Row:
        rows = self.books.wait_for_the_end(self.expected, 40)
        self.books.check_money(rows)
        self.books.check_events()
        held = self.books.read("SELECT COUNT(*) FROM proxy_deepresearch WHERE held_until IS NOT NULL")
        assert held == [(0,)]
        return next(row for row in rows if row.question == question)


@pytest.fixture(scope="module")
def lasting_portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    folder = tmp_path_factory.mktemp("web")
    with SandboxServer(folder / "sandbox.sqlite3", seconds=0.5) as sandbox:
        portal = Portal(folder, sandbox)
        with portal.server as server:
            server.terminate()
            yield portal


@pytest.fixture
def portal(lasting_portal: Portal) -> Iterator[Portal]:
    yield lasting_portal
    lasting_portal.server.close()


@pytest.mark.parametrize(
    ("point", "note"),
    [
        ("submit.before_send", ""),
        ("web.taken", "was found there"),
        ("submit.accepted", "was found there"),
        ("poll.answered", ""),
    ],
)
def test_it_finishes_once_what_a_worker_died_on(portal: Portal, point: str, note: str) -> None:
    question = f"Tides at {point}?"
    portal.server.start(SONDE_CRASH_AT=point)
    portal.start(question)
    assert portal.server.wait() == -signal.SIGKILL
    portal.server.start()
    row = portal.judge(question)
    assert row.state == "completed"
    assert note in "".join(row.notes)
    assert portal.sandbox.counts().web_entries(question) == 1


def test_it_returns_the_credits_of_a_run_whose_thread_nobody_knows(portal: Portal) -> None:
    question = "Tides that nobody knows of?"
    portal.server.start(SONDE_CRASH_AT="web.asked")
    portal.start(question)
    assert portal.server.wait() == -signal.SIGKILL
    portal.server.start()
    row = portal.judge(question)
    assert row.state == "failed"
    assert "credits were returned" in row.notes[0]
    assert portal.sandbox.counts().web_entries(question) == 1


def test_it_really_stops_what_a_worker_died_on_while_it_was_stopping_it(portal: Portal) -> None:
    question = "Tides? [sandbox:stuck]"
    portal.server.start(SONDE_CRASH_AT="stop.answered")
    run_id = portal.start(question)
    until = time.monotonic() + 30
    while not any(
        entry["reconnects"] for entry in portal.sandbox.web_entries() if entry["question"] == question
    ):
        assert time.monotonic() < until, "never looked at"
        time.sleep(0.1)
    portal.cancel(run_id)
    assert portal.server.wait() == -signal.SIGKILL
    portal.server.start()
    assert portal.judge(question).state == "cancelled"
    stopped = [entry["stopped_at"] for entry in portal.sandbox.web_entries() if entry["question"] == question]
    assert len(stopped) == 1
    assert stopped[0] is not None
