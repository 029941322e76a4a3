"""`manage.py research "question"`: ask, watch, print the report; the exit code tells the outcome.

A server on the same data folder does the work when there is one; otherwise this command brings
its own worker for as long as it watches.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils import timezone

from portal.data_folder import FolderInUse
from portal.embedded import Embedded, PortTaken
from portal.management.base import SpokenCommand
from portal.models.keys import Scope
from portal.models.users import User
from portal.running.preparation import NotReady
from portal.services import network
from portal.services.principal import Principal
from portal.wire.errors import Problem
from research.models.runs import Door, Run
from research.protocol.answer import build_response
from research.protocol.options import RunRequest
from research.protocol.shell import exit_code, outcome, progress_line, report_text
from research.queries import find_run
from research.services.start import start_run
from research.services.views import view_of

LOOK_SECONDS = 0.5
LEFT_ALONE = 130
"""Exit code when the person stopped watching; the run itself goes on."""


class Command(SpokenCommand):
    help = "Ask a research question, watch it run and print the report."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("question", help="what to find out, in quotes")
        parser.add_argument("--user", metavar="EMAIL", help="whose run it is; default: the first admin")
        parser.add_argument("--preset", metavar="P", help="default: the portal's default preset")
        parser.add_argument("--json", action="store_true", help="print the API's response object")
        parser.add_argument("--out", metavar="FILE", type=Path, help="write there instead of standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        out: Path | None = options["out"]
        if out is not None:
            check_writable(out)
        who = asker(options["user"])
        request = RunRequest(question=options["question"].strip(), preset=options["preset"])
        if not request.question:
            raise CommandError("the question is empty", returncode=2)
        try:
            with engine() as worker:
                run = watch(who, start_run(who, request, Door.SHELL).run, worker, sys.stderr)
        except Problem as problem:
            raise CommandError(problem.message, returncode=2) from None
        view = view_of(run)
        text = (
            json.dumps(build_response(view), ensure_ascii=False, indent=2)
            if options["json"]
            else report_text(view)
        )
        if text:
            deliver(text, out)
        if code := exit_code(view.status):
            raise CommandError(outcome(view), returncode=code)
        self.stderr.write(outcome(view), lambda line: line)


def asker(email: str | None) -> Principal:
    """The user who asks: the named one, else the first admin."""
    try:
        people = User.objects.filter(is_active=True)
        user = (
            people.filter(email__iexact=email).first()
            if email
            else people.filter(is_staff=True).order_by("pk").first()
        )
    except DatabaseError:
        raise CommandError("the database is not ready: run bin/up once first", returncode=2) from None
    if user is None:
        who = f"there is no active user {email}" if email else "there is no admin yet: run bin/up once first"
        raise CommandError(who, returncode=2)
    return Principal(user.pk, frozenset(Scope.values), is_staff=user.is_staff)


class Engine:
    """A worker beside us, unless a server or a cluster has one.

    Another command may have brought the worker that we rely on, and take it away when it ends:
    `keep` is asked at every look and steps in.
    """

    def __init__(self) -> None:
        self.parts: Embedded | None = None

    def keep(self) -> None:
        if self.parts is not None or settings.CLUSTER:
            return
        parts = Embedded()
        try:
            parts.start()
        except FolderInUse:
            return
        except (NotReady, PortTaken) as error:
            raise CommandError(str(error), returncode=2) from None
        self.parts = parts

    def stop(self) -> None:
        if self.parts is not None:
            self.parts.stop()


@contextmanager
def engine() -> Iterator[Engine]:
    brought = Engine()
    try:
        brought.keep()
        yield brought
    finally:
        brought.stop()
        network.close()


def watch(who: Principal, run: Run, engine: Engine, stream: TextIO) -> Run:
    """Show progress until the run has ended; return it as it is then."""
    line = Line(stream)
    try:
        while not run.is_terminal:
            line.show(progress_line(run.progress, run.status, seconds_since(run), run.usual_seconds))
            time.sleep(LOOK_SECONDS)
            engine.keep()
            run = find_run(who, run.pk)
    except KeyboardInterrupt:
        line.close()
        raise CommandError(
            f"stopped watching; the run {run.public_id} goes on while a server is up", returncode=LEFT_ALONE
        ) from None
    line.close()
    return run


def seconds_since(run: Run) -> int:
    return int((timezone.now() - run.created_at).total_seconds())


class Line:
    """One line that changes on a terminal; on anything else, a line for each change of its words."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.last = ""

    def show(self, progress: tuple[str, str]) -> None:
        words, clock = progress
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[K{clock}  {words}")
            self.stream.flush()
        elif words != self.last:
            self.stream.write(f"{clock}  {words}\n")
            self.stream.flush()
        self.last = words

    def close(self) -> None:
        if self.stream.isatty() and self.last:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def check_writable(out: Path) -> None:
    """Before any credit is spent."""
    try:
        if out.exists():
            out.open("a").close()
        else:
            TemporaryFile(dir=out.parent).close()
    except OSError as error:
        raise CommandError(f"--out: cannot write {out}: {error.strerror}", returncode=2) from None


def deliver(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(f"{text}\n")
        return
    try:
        out.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        sys.stdout.write(f"{text}\n")
        raise CommandError(
            f"--out: {error.strerror}; the report is on standard output", returncode=2
        ) from None
