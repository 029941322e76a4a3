"""The servers of one benchmark, each started as it would be in earnest, and how much CPU each has used.

A server under test has the first core to itself; upstream, database and load have the other.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

from tests.certificates import make_certificate
from tests.services import Postgres, Valkey, free_port

ROOT = Path(__file__).resolve().parent.parent
TESTED_CORE, OTHER_CORE = ("0", "1") if (os.cpu_count() or 1) > 1 else ("0", "0")
START_SECONDS = 90.0
TICKS = os.sysconf("SC_CLK_TCK")
PATH = "/v1/chat/completions"
OPEN_FILES = 8_192
"""What thousands of streams need of each process: a connection to either side."""
TLS_HOST = "upstream.localhost"
"""This machine, by a name that the product does not take for it: loopback gets the plain client."""
LITELLM = """
model_list:
  - model_name: bench
    litellm_params: {model: openai/bench, api_base: "UPSTREAM/v1", api_key: none}
litellm_settings: {telemetry: false}
"""
NGINX = """
daemon off; master_process off; pid FOLDER/nginx.pid; error_log FOLDER/nginx.error.log;
events { worker_connections 8192; }
http {
  access_log off; client_body_temp_path FOLDER; proxy_temp_path FOLDER;
  fastcgi_temp_path FOLDER; uwsgi_temp_path FOLDER; scgi_temp_path FOLDER;
  keepalive_requests 100000000;
  upstream asked { server UPSTREAM; keepalive 256; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:PORT;
    location / {
      proxy_pass http://asked; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }
  }
}
"""
SETUP = """
from portal.models.ledger import CreditAccount
from portal.models.users import User
from portal.services import ledger
from proxy.models.accounts import WebAccount
WebAccount.objects.update(parallel_limit=30000)
account = CreditAccount.objects.get(user=User.objects.get())
ledger.grant(account, 1000000, grant_key="bench", reason="bench", actor_id=None)
"""

BOOKS = """
from decimal import Decimal
from django.db.models import Sum
from portal.models.ledger import LedgerEntry
from proxy.models.chats import ChatTurn
open_, over = ChatTurn.State.OPEN, ChatTurn.State.DELIVERED
told = ChatTurn.objects.filter(state=over).aggregate(price=Sum("price"))["price"] or Decimal(0)
closes = LedgerEntry.objects.filter(kind="close", subject__startswith="chat:")
paid = closes.aggregate(settled=Sum("settled"))["settled"] or Decimal(0)
left = ChatTurn.objects.filter(state=open_).count()
print(ChatTurn.objects.filter(state=over).count(), left, paid == told)
"""


@dataclass(frozen=True, slots=True)
class Target:
    """What is put under load; `pid` is 0 for the upstream itself."""

    name: str
    url: str
    pid: int
    model: str = "bench"
    key_file: str = ""

    def cpu_seconds(self) -> float:
        """Of the process and all its threads, so far."""
        if not self.pid:
            return 0.0
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_kib(self) -> int:
        return self._memory_kib("VmRSS")

    def peak_kib(self) -> int:
        """The most that it had in memory since `forget_peak`."""
        return self._memory_kib("VmHWM")

    def forget_peak(self) -> None:
        if self.pid:
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _memory_kib(self, name: str) -> int:
        if not self.pid:
            return 0
        found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) if found else 0


def allow_open_files() -> None:
    """As many as this account may have, here and in what is started from here. Ends the run when they are
    too few."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < OPEN_FILES:
        raise SystemExit(f"S5 needs {OPEN_FILES:,} open files (ulimit -n); only {most:,} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def process(
    core: str, command: list[str], log: Path, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        started = subprocess.Popen(
            ["taskset", "-c", core, *command],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(15)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def wait_for(url: str, log: Path, started: subprocess.Popen[bytes]) -> None:
    opener, until = build_opener(ProxyHandler({})), time.monotonic() + START_SECONDS
    while True:
        try:
            opener.open(Request(url), timeout=2).close()
            return
        except OSError as error:
            if getattr(error, "code", 0) in (401, 404, 405):
                return
            if started.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{url} does not answer:\n{log.read_text()[-2000:]}") from None
            time.sleep(0.1)


class Field:
    """Every server that a round needs, until the block ends."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.portals: dict[str, Mapping[str, str]] = {}
        """The settings of each that was started, by its target's name."""

    def __enter__(self) -> Field:
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="sonde-bench-")))
        port, tls_port = free_port(), free_port()
        self.certificate = make_certificate(self.folder / "upstream.pem", TLS_HOST)
        self.upstream = f"http://127.0.0.1:{port}"
        self.tls_upstream = f"https://{TLS_HOST}:{tls_port}"
        command = [sys.executable, "-m", "bench.upstream", str(port), str(tls_port), str(self.certificate)]
        self._start(OTHER_CORE, command, "upstream", self.upstream)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def direct(self) -> Target:
        return Target("direct", self.upstream + PATH, 0)

    def relay(self) -> Target:
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "bench.relay:application", "--port", str(port)]
        url = f"http://127.0.0.1:{port}"
        pid = self._start(
            TESTED_CORE, [*command, "--no-access-log"], "relay", url, UPSTREAM=self.upstream, alive="/docs"
        )
        return Target("relay", url + PATH, pid)

    def nginx(self, program: Path) -> Target:
        """As a bare reverse proxy, which neither reads nor changes what it hands on."""
        config, port = self.folder / "nginx.conf", free_port()
        asked = self.upstream.removeprefix("http://")
        told = NGINX.replace("FOLDER", str(self.folder)).replace("UPSTREAM", asked)
        config.write_text(told.replace("PORT", str(port)))
        url = f"http://127.0.0.1:{port}"
        pid = self._start(TESTED_CORE, [str(program), "-c", str(config)], "nginx", url)
        return Target("nginx", url + PATH, pid)

    def litellm(self, program: Path) -> Target:
        """The proxy of that name, out of an environment of its own."""
        config, port = self.folder / "litellm.yaml", free_port()
        config.write_text(LITELLM.replace("UPSTREAM", self.upstream))
        url = f"http://127.0.0.1:{port}"
        command = [str(program), "--config", str(config), "--port", str(port), "--num_workers", "1"]
        alive = "/health/liveliness"
        pid = self._start(TESTED_CORE, command, "litellm", url, alive=alive, LITELLM_LOG="ERROR")
        return Target("litellm", url + PATH, pid)

    def impersonating(self) -> Target:
        """The same, asking over TLS as a browser does."""
        settings = {
            "PPLX_WEB_URL": self.tls_upstream,
            "PPLX_IMPERSONATE": "chrome",
            "BENCH_CA": str(self.certificate),
        }
        return self.sonde("impersonating", "bench.trusting", **settings)

    def sonde(self, name: str = "sonde", module: str = "manage", **environment: str) -> Target:
        """One web process on PostgreSQL and Valkey, with key check, reservation and ledger as in earnest."""
        database, valkey = (
            self.stack.enter_context(_running(Postgres())),
            self.stack.enter_context(_running(Valkey())),
        )
        port = free_port()
        settings = {
            "SONDE_ENV_FILE": "",
            "SONDE_MODE": "cluster",
            "SONDE_UPSTREAM": "live",
            "DATABASE_URL": database.url,
            "REDIS_URL": valkey.url,
            "DATA_DIR": str(self.folder / name),
            "PORT": str(port),
            "PPLX_WEB_URL": self.upstream,
            "PPLX_COOKIE": "bench-session-token-of-no-account",
            "PPLX_IMPERSONATE": "off",
            **environment,
        }
        up = [sys.executable, "-m", module, "up", "--role", "web"]
        url = f"http://127.0.0.1:{port}"
        pid = self._start(TESTED_CORE, up, name, url, alive="/health/live", **settings)
        self.portals[name] = settings
        self._manage(name, "shell", "-c", SETUP)
        shown = (self.folder / f"{name}.log").read_text()
        key = self.folder / f"{name}.key"
        found = re.search(r"API key\s+(sonde_\S+)", shown)
        assert found, shown
        key.write_text(found[1])
        return Target(name, url + PATH, pid, "gpt", str(key))

    def faults(self, name: str, answered: int) -> list[str]:
        """What is wrong with a portal's books after it has given so many answers: then no figure counts."""
        checked = self._manage(name, "ledger_check")
        told = self._manage(name, "shell", "-v", "0", "-c", BOOKS)
        delivered, left, is_paid = told.split()[-3:]
        wrong = {
            f"{answered} answers were read, {delivered} were delivered": int(delivered) != answered,
            f"{left} chats are still open": left != "0",
            "what is settled is not what was delivered": is_paid != "True",
        }
        print(f"    {name:13} {checked.strip().splitlines()[-1]}", flush=True)
        return [fault for fault, is_so in wrong.items() if is_so]

    def _manage(self, name: str, *arguments: str) -> str:
        """What a command of that portal prints. Raises CalledProcessError where it fails."""
        command = [sys.executable, "manage.py", *arguments]
        environment = {**os.environ, **self.portals[name]}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def _start(
        self, core: str, command: list[str], name: str, url: str, alive: str = "/", **environment: str
    ) -> int:
        log = self.folder / f"{name}.log"
        started = self.stack.enter_context(process(core, command, log, **environment))
        wait_for(url + alive, log, started)
        return started.pid


@contextmanager
def _running(server: Postgres | Valkey) -> Iterator[Postgres | Valkey]:
    server.start()
    try:
        if server.process is not None:
            subprocess.run(
                ["taskset", "-acp", OTHER_CORE, str(server.process.pid)], check=False, capture_output=True
            )
        yield server
    finally:
        server.stop()
