"""The real `manage.py up`, started by a test: on a free port, in a folder of its own, with only the
environment the test gives it.

    with RunningServer(tmp_path) as server:          # embedded, with the sandbox as its upstream
        httpx.get(f"{server.url}/health/ready")
        server.kill()                                 # SIGKILL to the whole group
        server.start(SONDE_CRASH_AT="after-submit")   # the same folder and ports, more environment

    RunningServer(tmp_path, mode="cluster", database_url=…, redis_url=…)               # supervised
    RunningServer(tmp_path, mode="cluster", role="worker", database_url=…, redis_url=…)  # one role

In a test run it is a fork of a process that has loaded the portal already (tests/warm_start.py); `command`
starts one from its very command line.

`url` is the portal's, `sandbox_url` the sandbox's; `email`, `password` and `api_key` are what the
first start showed. Everything that a process wrote, on both streams, stands in `output()`. The
server ends when the test process does, in whatever way. The sandbox is a part of the server in
embedded mode and of the web process in cluster mode; its counters outlive a kill. Servers that are
roles of one cluster need one folder and one SANDBOX_PORT.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Literal

from tests import warm_start
from tests.migrated import copy_file
from tests.services import free_port

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0
STOP_SECONDS = 45.0
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")

Mode = Literal["embedded", "cluster"]
Role = Literal["all", "web", "worker", "beat"]


class ServerError(Exception):
    """The server did not come up; with what it said."""


class RunningServer:
    """`sandbox=False` names no upstream, which in embedded mode means the sandbox all the same; set
    PERPLEXITY_API_KEY and PERPLEXITY_BASE_URL for one of your own. `migrated=False` starts on no tables at
    all, which takes its time; a cluster's database is the caller's. `command` replaces `manage.py up`."""

    def __init__(
        self,
        folder: Path,
        *,
        mode: Mode = "embedded",
        role: Role = "all",
        sandbox: bool = True,
        migrated: bool = True,
        database_url: str = "",
        redis_url: str = "",
        command: list[str] | None = None,
        **environment: str,
    ) -> None:
        self.folder = folder
        self.role = role
        self.port = int(environment.get("PORT", "0")) or free_port()
        self.sandbox_port = int(environment.get("SANDBOX_PORT", "0")) or free_port()
        self.command = command
        self.migrated = migrated and mode == "embedded"
        self.environment = {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            "SONDE_ENV_FILE": "",
            "SONDE_MODE": mode,
            "DATA_DIR": str(folder / "data"),
            "PORT": str(self.port),
            **({"SONDE_UPSTREAM": "sandbox", "SANDBOX_PORT": str(self.sandbox_port)} if sandbox else {}),
            **({"DATABASE_URL": database_url} if database_url else {}),
            **({"REDIS_URL": redis_url} if redis_url else {}),
            **environment,
        }
        self.process: warm_start.Process | None = None
        self.log = folder / f"{role}-{self.port}.log"
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def sandbox_url(self) -> str:
        return f"http://127.0.0.1:{self.sandbox_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    @property
    def email(self) -> str:
        return self._shown(r"email\s+(\S+@\S+)")

    @property
    def password(self) -> str:
        return self._shown(r"password\s+(\S+)")

    @property
    def api_key(self) -> str:
        return self._shown(r"API key\s+(sonde_\S+)")

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def start(self, **more: str) -> None:
        """Start, and wait until it says that it is ready; `more` is environment for this start."""
        before = self.launch(**more)
        self._wait_until_ready(before)

    def launch(self, **more: str) -> int:
        """Start without waiting. Gives how much of the output is of earlier starts."""
        assert self.process is None, "the server is running"
        before = len(self.output())
        database = Path(self.environment["DATA_DIR"]) / "sonde.sqlite3"
        if self.migrated and not database.exists():
            copy_file(database)
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            begin = warm_start.start_cold if self.command else warm_start.start
            command = self.command or self._up()
            environment = {**self.environment, **more}
            self.process = begin(command, environment, stdin=nothing, stdout=log, stderr=log)
        return before

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Wait for it to end by itself; its exit code, negative when a signal ended it."""
        assert self.process is not None, "the server is not running"
        code = self.process.wait(seconds)
        self.process = None
        return code

    def has_ended(self, seconds: float = 0) -> bool:
        """Whether it ends by itself within `seconds`; `wait` then gives its exit code."""
        assert self.process is not None, "the server is not running"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def terminate(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, as an operator would; the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """SIGKILL to the process and its children, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def restart(self, **more: str) -> None:
        self.terminate()
        self.start(**more)

    def manage(self, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
        """Run another command on the same folder and environment, to its end."""
        environment = {**self.environment, **options}
        return warm_start.run(["manage.py", *arguments], environment, timeout=START_SECONDS)

    def close(self) -> None:
        if self.process is not None:
            self.kill()

    def __enter__(self) -> RunningServer:
        if self.process is None:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _up(self) -> list[str]:
        return ["manage.py", "up", "--role", self.role, "--parent", str(warm_start.parent())]

    def _wait_until_ready(self, before: int) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while not re.search(r"^Sonde \S+ (\w+ )?is ready", self.output()[before:], re.MULTILINE):
            if self.process.poll() is not None:
                raise ServerError(f"it ended with code {self.wait()}: {self.output()[before:]}")
            if time.monotonic() > deadline:
                raise ServerError(f"it is not ready: {self.output()[before:]}")
            time.sleep(0.03)

    def _shown(self, pattern: str) -> str:
        found = re.search(rf"^\s+{pattern}$", self.output(), re.MULTILINE)
        assert found, f"the first start showed no {pattern}"
        return found[1]
