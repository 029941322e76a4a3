"""A real sandbox for tests: `python -m sandbox` in its own process, on one port and one file all its lives.

with SandboxServer(tmp_path / "sandbox.sqlite3", seconds=0.3) as sandbox:
    ...                        # sandbox.url, sandbox.key
    sandbox.kill()             # SIGKILL
    sandbox.start()            # the same port, the same jobs
    assert sandbox.counts().agent_submissions(question) == 1
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.request import ProxyHandler, Request, build_opener

from tests import warm_start

_OPENER = build_opener(ProxyHandler({}))
_START_SECONDS = 20.0
_STDERR = 2


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Submission:
    """Submissions of one question (and key) to one API: how many arrived, how many became jobs."""

    api: str
    idempotency_key: str
    question: str
    received: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The sandbox's counters; they outlive its death."""

    submissions: tuple[Submission, ...]
    totals: dict[str, int]
    calls: dict[str, int]

    def agent_submissions(self, question: str) -> int:
        """POSTs to the Agent API with exactly this question that reached the sandbox."""
        return sum(row.received for row in self.submissions if (row.api, row.question) == ("agent", question))

    def agent_jobs(self, question: str) -> int:
        """Runs that the Agent API made for exactly this question."""
        return sum(row.accepted for row in self.submissions if (row.api, row.question) == ("agent", question))

    def web_asks(self, question: str) -> int:
        """Asks of the web backend with exactly this question (the last thing the user said) that arrived."""
        return sum(row.received for row in self.submissions if (row.api, row.question) == ("web", question))

    def web_entries(self, question: str) -> int:
        """Entries that the web backend made for exactly this question."""
        return sum(row.accepted for row in self.submissions if (row.api, row.question) == ("web", question))

    def sonar_submissions(self, key: str) -> int:
        """POSTs to the asynchronous Sonar API with this idempotency key that reached the sandbox."""
        return sum(
            row.received for row in self.submissions if (row.api, row.idempotency_key) == ("sonar", key)
        )

    def sonar_jobs(self, key: str) -> int:
        """Jobs that the asynchronous Sonar API made for this idempotency key: never more than one."""
        return sum(
            row.accepted for row in self.submissions if (row.api, row.idempotency_key) == ("sonar", key)
        )


class SandboxServer:
    """Starts, stops, kills and questions one sandbox.

    `seconds` is the usual length of a run, `chat_seconds` that of a web chat answer (else 3, or `seconds`
    where that is less). `token` is the web session of a healthy Max account.
    """

    key = "pplx-sandbox"
    token = "sandbox-max-tester"

    def __init__(
        self,
        database: Path,
        *,
        seconds: float | None = 0.3,
        chat_seconds: float | None = None,
        mode: str | None = None,
        port: int | None = None,
    ) -> None:
        self.database = database
        self.seconds = seconds
        self.chat_seconds = chat_seconds
        self.mode = mode
        self.port = port or free_port()
        self._process: warm_start.Process | None = None
        self._held: IO[bytes] | None = None
        """What the sandbox reads: it ends when that is closed, which it is when this process ends."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _command(self) -> list[str]:
        command = ["-m", "sandbox", "--follow", "--database", str(self.database)]
        command += ["--port", str(self.port)]
        if self.seconds is not None:
            command += ["--seconds", str(self.seconds)]
        if self.chat_seconds is not None:
            command += ["--chat-seconds", str(self.chat_seconds)]
        return command + (["--mode", self.mode] if self.mode else [])

    def start(self) -> None:
        """Starts the process and waits until it answers; raises RuntimeError when it dies or stays silent."""
        assert self._process is None, "the sandbox is already running"
        read, held = os.pipe()
        self._held = os.fdopen(held, "wb")
        with os.fdopen(read, "rb") as stdin, Path(os.devnull).open("wb") as nothing:
            self._process = warm_start.start(
                self._command(), os.environ, stdin=stdin, stdout=nothing, stderr=_STDERR
            )
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            if self._answers(self._process.pid):
                return
            time.sleep(0.02)
        self.kill()
        raise RuntimeError("the sandbox did not start")

    def _answers(self, pid: int) -> bool:
        """Whether this process, and not another one on the port, answers."""
        try:
            return bool(self.control("")["pid"] == pid)
        except OSError:
            return False

    def stop(self) -> None:
        """Ends the process with SIGTERM, with SIGKILL after five seconds."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._bury(self._process)

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to write anything more."""
        if self._process is None:
            return
        self._process.kill()
        self._bury(self._process)

    def _bury(self, process: warm_start.Process) -> None:
        process.wait()
        if self._held is not None:
            self._held.close()
        self._process = self._held = None

    def control(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call through the control door; a body makes it a POST."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        address = f"{self.url}/_sandbox{'/' + path if path else ''}"
        with _OPENER.open(Request(address, data, headers), timeout=10) as answer:
            return json.load(answer)

    def settings(self, **values: Any) -> None:
        """Sets any of `mode`, `seconds`, `chat_seconds`, `web_version` and `fail_next` at run time."""
        self.control("settings", values)

    def fail_next(self, fault: str, *, phase: str = "any", api: str = "any", times: int = 1) -> None:
        """The next `times` calls of a phase (submit, late, poll, cancel, session, quota…) meet a fault."""
        self.settings(fail_next={"fault": fault, "phase": phase, "api": api, "times": times})

    def reset(self) -> None:
        """Forgets jobs, counters and settings."""
        self.control("reset", {})

    def counts(self) -> Counts:
        found = self.control("counts")
        rows = tuple(Submission(**row) for row in found["submissions"])
        return Counts(rows, found["totals"], found["calls"])

    def web(self) -> dict[str, Any]:
        """The web backend's accounts with their counters, and how many streams are open, and were at most."""
        found: dict[str, Any] = self.control("web")
        return found

    def order(self, account: str, **orders: Any) -> None:
        """Changes one web account: standing, tier, flags, slots, remaining_pro, remaining_research, retired,
        added, substitutes, forgotten."""
        self.control("web/account", {"account": account, **orders})

    def web_requests(self, path: str = "") -> list[dict[str, Any]]:
        """The newest thousand requests to the web backend, newest first; `path` may end in `*`. `ended_at` is
        None while the answer lasts, `ending` is done, cut (by the sandbox) or left (by the client)."""
        found: list[dict[str, Any]] = self.control(f"web/requests?path={path}")["requests"]
        return found

    def web_entries(self) -> list[dict[str, Any]]:
        """The newest thousand asks that the web backend accepted, newest first."""
        found: list[dict[str, Any]] = self.control("web/entries")["entries"]
        return found

    def messages(self, topic: str = "") -> list[dict[str, Any]]:
        """What was published to the ntfy sink, in order."""
        found: list[dict[str, Any]] = self.control(f"web/messages?topic={topic}")["messages"]
        return found

    def jobs(self) -> list[dict[str, Any]]:
        """The newest thousand jobs with their state, polls and cancels, newest first."""
        found: list[dict[str, Any]] = self.control("jobs")["jobs"]
        return found
