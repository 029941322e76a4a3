"""`manage.py up`: everything that has to be true, then everything that has to run (SPEC 1.1, 1.2)."""

from __future__ import annotations

import logging
import os
import shlex
import socket
import sys
from argparse import SUPPRESS, ArgumentParser
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connection

from portal.data_folder import FolderInUse
from portal.embedded import PortTaken, folder_lock
from portal.running import preparation
from portal.running.preparation import NotReady
from portal.running.roles import Deaf, run_beat, run_worker
from portal.running.server import CannotListen, open_socket, serve
from portal.running.signals import end_with, leave_interrupts_to_the_parent, nothing
from portal.running.supervisor import Supervisor
from portal.services import network, upstreams
from portal.services.sealing import SealError
from portal.wire.version import VERSION
from research.backends.table import BACKENDS

ROLES = ("all", "web", "worker", "beat")
QUESTION = '{"preset": "2m", "input": "What is known about sleep and memory?"}'


class Command(BaseCommand):
    help = "Prepare the database and run the portal until it is told to stop."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.HOST, help="default: %(default)s")
        parser.add_argument("--port", type=int, default=settings.PORT, help="default: %(default)s")
        parser.add_argument("--role", choices=ROLES, default="all", help="what to run, in cluster mode")
        # For the supervisor's children, and for tests: whom to end with, what is done already.
        parser.add_argument("--parent", type=int, help=SUPPRESS)
        parser.add_argument("--child", action="store_true", help=SUPPRESS)
        parser.add_argument("--fd", type=int, help=SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        adopt(options["host"], options["port"])
        role: str = options["role"]
        if role != "all" and not settings.CLUSTER:
            self.say("--role: embedded mode runs everything in one process; set SONDE_MODE=cluster")
            leave(1)
        if options["child"]:
            leave_interrupts_to_the_parent()
        if options["parent"]:
            end_with(options["parent"])
        self.key: str | None = None
        self.upstream = ""
        try:
            self.run(role, is_child=options["child"], descriptor=options["fd"])
        except (FolderInUse, PortTaken, CannotListen, NotReady, SealError, Deaf) as error:
            self.say(str(error))
            leave(1)
        leave(0)

    def run(self, role: str, *, is_child: bool, descriptor: int | None) -> None:
        if not settings.CLUSTER:
            folder_lock.take(settings.DATA_DIR)
        listener = None
        if role in ("all", "web"):
            inherited = descriptor is not None
            listener = (
                socket.socket(fileno=descriptor) if inherited else open_socket(settings.HOST, settings.PORT)
            )
        if not settings.CLUSTER:
            folder_lock.tell(f"{settings.HOST}:{settings.PORT}", settings.PUBLIC_URL)
        if not is_child:
            self.prepare(role)
        on_ready = nothing if is_child else lambda: self.tell_ready(role)
        if listener is not None and role == "all" and settings.CLUSTER:
            supervise(listener, on_ready)
        elif listener is not None:
            serve(listener, on_ready)
        elif role == "worker":
            run_worker(on_ready)
        else:
            run_beat(on_ready)

    def prepare(self, role: str) -> None:
        unknown = [name for name in settings.RESEARCH_BACKENDS if name not in BACKENDS]
        if unknown:
            raise NotReady(f"RESEARCH_BACKENDS: there is no backend called {unknown[0]}")
        preparation.wait_for_database(self.say)
        with preparation.turn():
            preparation.migrate(self.say)
            if role in ("all", "web"):
                self.key = preparation.make_first_admin(self.show_first_admin)
                preparation.import_environment()
                self.upstream = upstreams.describe()
                for complaint in preparation.complaints():
                    self.say(complaint)
        # The server makes its own connections; this one would be kept for nothing.
        connection.close()
        network.close()

    def say(self, text: str) -> None:
        print(f"sonde: {text}", file=sys.stderr, flush=True)

    def show_first_admin(self, email: str, password: str, key: str) -> None:
        self.stdout.write(
            f"\nYour first admin, who logs in at {settings.PUBLIC_URL}. Shown once; write it down.\n\n"
            f"  email     {email}\n"
            f"  password  {password}\n"
            f"  API key   {key}\n"
        )
        self.stdout.flush()

    def tell_ready(self, role: str) -> None:
        if role in ("worker", "beat"):
            self.stdout.write(f"Sonde {VERSION} {role} is ready")
        else:
            self.stdout.write(
                f"\nSonde {VERSION} is ready: {settings.PUBLIC_URL}\n\n"
                f"  mode      {settings.SONDE_MODE}, listening on {settings.HOST}:{settings.PORT}\n"
                f"  upstream  {self.upstream}\n\n"
                f"Start a run:\n\n  {curl_line(self.key or 'YOUR_KEY')}\n"
            )
        self.stdout.flush()


def adopt(host: str, port: int) -> None:
    """Start again with --host and --port in the environment, when they differ from it: the settings
    derive more from them than an address, and the supervisor's children read them too."""
    if (host, port) == (settings.HOST, settings.PORT):
        return
    os.environ |= {"HOST": host, "PORT": str(port)}
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def supervise(listener: socket.socket, on_ready: Any) -> None:
    """Run one process of each role; `on_ready` is called when the web server takes requests."""
    waiting = [on_ready]

    def look() -> None:
        if waiting and is_listening():
            waiting.pop()()

    Supervisor({role: child_command(role, listener) for role in ROLES[1:]}, [listener]).run(look)


def child_command(role: str, listener: socket.socket) -> list[str]:
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "up", "--role", role]
    descriptor = ["--fd", str(listener.fileno())] if role == "web" else []
    return [*command, "--child", "--parent", str(os.getpid()), *descriptor]


def is_listening() -> bool:
    try:
        socket.create_connection((settings.HOST, settings.PORT), timeout=1).close()
    except OSError:
        return False
    return True


def curl_line(key: str) -> str:
    """Starts a run when pasted into a shell."""
    headers = ["-H", f"Authorization: Bearer {key}", "-H", "Content-Type: application/json"]
    return shlex.join(["curl", "-s", f"{settings.PUBLIC_URL}/v1/agent", *headers, "-d", QUESTION])


def leave(code: int) -> NoReturn:
    """End now: a thread that outlasted its grace would hold the process up, and its work is safe."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
