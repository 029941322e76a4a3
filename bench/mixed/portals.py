"""A whole portal over a sandbox of its own, for loads that last: as a cluster out of wheels, or embedded."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.crash.verdict import Books
from tests.migrated import migrate
from tests.running_server import Role, RunningServer
from tests.sandbox_server import SandboxServer
from tests.services import Postgres, Valkey

USERS = 8
SHARED = {
    "SONDE_UPSTREAM": "sandbox",
    "SECRET_KEY": "a secret key that every process of this portal shares, and nobody else",
    "SONDE_ENCRYPTION_KEYS": "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "RESEARCH_POLL_SECONDS": "1",
    "CHAT_FIRST_SECONDS": "15",
    "CHAT_SILENCE_SECONDS": "8",
    "CHAT_WAIT_SECONDS": "10",
}
# The steady ones do not falter by themselves, so that something is always answered.
SESSIONS = (
    *(f"max-steady-{number}" for number in range(8)), *(f"pro-steady-{number}" for number in range(8)),
    "max-flaky-e", "pro-flaky-f", "max-rotating-restless-g", "pro-rotating3-restless-h",
    "max-shaky-i", "pro-shaky-j", "pro-slots3-k", "free-shaky-l",
)  # fmt: skip
SHAKY = tuple(f"sandbox-{name}" for name in SESSIONS if "shaky" in name)
SET_UP = f"""
import json
from decimal import Decimal
from django.test import Client
from portal.services import keys, users
from proxy.models.accounts import WebAccount
from proxy.services import sessions
for name in {SESSIONS!r}:
    made = sessions.put_cookie("sandbox-" + name, new_name=name)
    made.parallel_limit = 24
    made.save(update_fields=["parallel_limit"])
WebAccount.objects.exclude(name__in={SESSIONS!r}).update(enabled=False)
made = []
for number in range({USERS}):
    user = users.create_user("visitor%d@example.org" % number, credits=Decimal(100000))
    user.parallel_runs = 100
    user.save(update_fields=["parallel_runs"])
    client = Client()
    client.force_login(user)
    key = keys.create_key(user, name="bench", scopes=["research", "chat", "files", "mcp"])[1]
    made.append((key, client.cookies["sessionid"].value))
print("made " + json.dumps(made))
"""


class Portal:
    """Its processes, what stands behind them, and who may use it: (API key, session cookie) of each user."""

    def __init__(self, books: Books, sandbox: SandboxServer, webs: list[RunningServer]) -> None:
        self.books = books
        self.sandbox = sandbox
        self.webs = webs
        self.behind: list[RunningServer] = []
        self.ports = {"upstream": sandbox.port}
        self.users: list[tuple[str, str]] = []

    @property
    def servers(self) -> list[RunningServer]:
        return [*self.webs, *self.behind]

    def start(self) -> None:
        for server in self.servers:
            if server.process is None:
                server.start()

    def close(self) -> None:
        for server in self.servers:
            server.close()

    def make_users(self) -> None:
        made = self.webs[0].manage("shell", "--no-imports", "-c", SET_UP)
        if made.returncode:
            raise SystemExit(made.stdout + made.stderr)
        self.users = [tuple(user) for user in json.loads(made.stdout.partition("made ")[2])]

    def fell_out(self) -> str:
        """What `ledger_check` has against the books; "" when they are right."""
        checked = self.webs[0].manage("ledger_check")
        return "" if checked.returncode == 0 else checked.stdout + checked.stderr

    def logs(self) -> dict[str, str]:
        """What each process has written."""
        return {server.folder.name: server.output() for server in self.servers}

    def take_away(self) -> str:
        """Take away, for some seconds, what it stands on. Gives what that was."""
        raise NotImplementedError


class ClusterPortal(Portal):
    """Two web processes, two workers, a beat, PostgreSQL and Valkey."""

    def __init__(self, folder: Path, sandbox: SandboxServer, postgres: Postgres, valkey: Valkey) -> None:
        self.postgres, self.valkey = postgres, valkey
        shared: dict[str, Any] = {
            "mode": "cluster",
            "sandbox": False,
            "database_url": postgres.url,
            "redis_url": valkey.url,
            "PERPLEXITY_BASE_URL": sandbox.url,
            **SHARED,
        }

        def process(role: Role, number: int) -> RunningServer:
            return RunningServer(folder / f"{role}{number}", role=role, **shared)

        super().__init__(Books(postgres.url), sandbox, [process("web", 1), process("web", 2)])
        self.behind = [process("worker", 1), process("worker", 2), process("beat", 1)]
        self.ports |= {"postgresql": postgres.port, "valkey": valkey.port}
        self.away = 0

    def logs(self) -> dict[str, str]:
        return {**super().logs(), "postgresql": self.postgres.log.read_text(errors="replace")}

    def take_away(self) -> str:
        self.away += 1
        if self.away % 3 == 0:
            self.valkey.stop(signal.SIGKILL)
            time.sleep(2)
            self.valkey.start()
            return "valkey killed"
        self.postgres.stop(signal.SIGINT)
        time.sleep(2)
        self.postgres.start()
        return "postgresql restarted"


class EmbeddedPortal(Portal):
    """One process on SQLite."""

    def __init__(self, folder: Path, sandbox: SandboxServer) -> None:
        settings: dict[str, Any] = {**SHARED, "PERPLEXITY_BASE_URL": sandbox.url}
        server = RunningServer(folder / "web1", sandbox=False, **settings)
        self.database = server.folder / "data" / "sonde.sqlite3"
        super().__init__(Books(self.database), sandbox, [server])

    def take_away(self) -> str:
        """A backup that keeps everybody from writing, for longer than anybody waits."""
        opened = sqlite3.connect(self.database, isolation_level=None, timeout=30)
        with contextlib.closing(opened) as backup:
            backup.execute("BEGIN IMMEDIATE")
            time.sleep(23)
            backup.execute("ROLLBACK")
        return "database locked"


@contextmanager
def running_portal(folder: Path, *, embedded: bool) -> Iterator[Portal]:
    with ExitStack() as stack:
        sandbox = SandboxServer(folder / "sandbox.sqlite3", seconds=4, chat_seconds=2)
        stack.enter_context(sandbox)
        portal = EmbeddedPortal(folder, sandbox) if embedded else _cluster(folder, sandbox, stack)
        stack.callback(portal.close)
        portal.start()
        portal.make_users()
        yield portal


def _cluster(folder: Path, sandbox: SandboxServer, stack: ExitStack) -> Portal:
    postgres, valkey = Postgres(), Valkey()
    for server in (postgres, valkey):
        server.start()
        stack.callback(server.close)
    migrate(folder / "making", DATABASE_URL=postgres.url, SONDE_MODE="cluster", REDIS_URL=valkey.url)
    return ClusterPortal(folder, sandbox, postgres, valkey)
