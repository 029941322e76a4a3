"""The servers of these figures: one portal on PostgreSQL and Valkey, and the baselines beside it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import psycopg

from bench.servers import OTHER_CORE, ROOT, TESTED_CORE, Field, Target, process
from tests.services import Postgres, Server, Valkey, free_port

AGENT = "/v1/agent"
STATEMENTS = "SELECT COALESCE(SUM(calls), 0)::bigint FROM pg_stat_statements"
CREDITS = """
from portal.models.ledger import CreditAccount
from portal.services import ledger
ledger.grant(CreditAccount.objects.get(), 1000000, grant_key="bench", reason="bench", actor_id=None)
"""
STOCK = {"DJANGO_SETTINGS_MODULE": "bench.runs.stock"}


class DurablePostgres(Postgres):
    """As one would run it: what is committed is on the disk. It counts statements."""

    def launch(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
        if Path(command[0]).name == "postgres":
            wanted = ["fsync=on", "synchronous_commit=on", "full_page_writes=on"]
            wanted.append("shared_preload_libraries=pg_stat_statements")
            command = [*command, *(part for name in wanted for part in ("-c", name))]
        return super().launch(command, **options)


class RunField(Field):
    """A portal that asks the jobs of `bench.runs.jobs`, and what can be started beside it."""

    def __enter__(self) -> RunField:
        super().__enter__()
        port = free_port()
        self.jobs = f"http://127.0.0.1:{port}"
        self._start(OTHER_CORE, [sys.executable, "-m", "bench.runs.jobs", str(port)], "jobs", self.jobs)
        self.database, self.valkey = DurablePostgres(), Valkey()
        self._serve(self.database)
        self._serve(self.valkey)
        self.query("CREATE EXTENSION pg_stat_statements")
        self.settings = {
            "SONDE_ENV_FILE": "",
            "SONDE_MODE": "cluster",
            "SONDE_UPSTREAM": "live",
            "DATABASE_URL": self.database.url,
            "REDIS_URL": self.valkey.url,
            "DATA_DIR": str(self.folder / "portal"),
            "PERPLEXITY_API_KEY": "pplx-of-the-bench-0123456789",
            "PERPLEXITY_BASE_URL": self.jobs,
            "RESEARCH_POLL_SECONDS": "5",
        }
        return self

    def portal(self) -> Target:
        """Its one web process, with key check, reservation and ledger as in earnest."""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        # By itself, since it may take longer than a server is waited for.
        self.manage("migrate", "--verbosity", "0")
        up = [sys.executable, "manage.py", "up", "--role", "web"]
        pid = self._start(
            TESTED_CORE, up, "portal", url, alive="/health/live", PORT=str(port), **self.settings
        )
        self.manage("shell", "-c", CREDITS)
        found = re.search(r"API key\s+(sonde_\S+)", (self.folder / "portal.log").read_text())
        assert found
        self.key = self.folder / "key"
        self.key.write_text(found[1])
        return Target("sonde", url + AGENT, pid, key_file=str(self.key))

    def stock(self) -> Target:
        """The same start behind a stock DRF view, on the same database."""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        serve = [sys.executable, "-m", "uvicorn", "bench.runs.stock_doors:application", "--port", str(port)]
        pid = self._start(
            TESTED_CORE, [*serve, "--no-access-log"], "stock", url, **{**self.settings, **STOCK}
        )
        return Target("drf", url + AGENT, pid, key_file=str(self.key))

    @contextmanager
    def part(self, name: str, core: str, command: list[str], **environment: str) -> Iterator[Target]:
        """A process that serves nothing, until the block ends."""
        log = self.folder / f"{name}.log"
        with process(core, command, log, **{**self.settings, **environment}) as started:
            yield Target(name, "", started.pid)

    def run(self, core: str, command: list[str], **environment: str) -> str:
        told = {**os.environ, **self.settings, **environment}
        command = ["taskset", "-c", core, *command]
        done = subprocess.run(command, cwd=ROOT, env=told, check=True, capture_output=True, text=True)
        return done.stdout

    def manage(self, *arguments: str) -> str:
        return self.run(OTHER_CORE, [sys.executable, "manage.py", *arguments])

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-2000:]

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def statements(self) -> int:
        """Statements that the database was asked so far, transaction control included."""
        return int(self.query(STATEMENTS)[0][0])

    def ask_jobs(self, path: str, *, post: bool = False) -> dict[str, Any]:
        opener = build_opener(ProxyHandler({}))
        with opener.open(self.jobs + path, data=b"" if post else None, timeout=10) as answer:
            told: dict[str, Any] = json.loads(answer.read())
            return told

    def _serve(self, server: Server) -> None:
        self.stack.callback(server.close)
        server.start()
        assert server.process is not None
        mine = ["taskset", "-acp", OTHER_CORE, str(server.process.pid)]
        subprocess.run(mine, check=True, capture_output=True)
