"""Databases as the migrations leave them: made once for a whole run and copied from then on.

A server that starts on an empty database migrates it, which takes longer than most tests. Only those tests
that are about a first start let it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from tests.environment import ROOT, postgres_url, run_folder

TEMPLATE = "sonde_migrated_"


def copy_file(target: Path) -> None:
    """A migrated SQLite database at `target`."""
    with turn() as folder:
        kept = folder / "sonde.sqlite3"
        if not kept.exists():
            migrate(folder / "making")
            (folder / "making" / "sonde.sqlite3").rename(kept)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(kept, target)
    target.chmod(0o600)


@contextmanager
def new_database() -> Iterator[str]:
    """The URL of a migrated database of its own in the run's PostgreSQL, dropped at the end."""
    server = postgres_url().rpartition("/")[0]
    name = f"sonde_{uuid4().hex}"
    with psycopg.connect(postgres_url(), autocommit=True) as admin, turn() as folder:
        template = template_of(folder, admin, server)
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        admin.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield f"{server}/{name}"
    finally:
        drop(postgres_url(), name)


def template_of(folder: Path, admin: psycopg.Connection, server: str) -> str:
    """The name of the database that is copied, made by the first who asks."""
    note = folder / "template"
    if not note.exists():
        name = TEMPLATE + uuid4().hex
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        cluster = {"SONDE_MODE": "cluster", "REDIS_URL": "redis://127.0.0.1:1/0"}
        migrate(folder / "making", DATABASE_URL=f"{server}/{name}", **cluster)
        note.write_text(name)
    return note.read_text()


def drop_template(url: str, folder: Path) -> None:
    """Leave nothing in a server that outlives the run; `folder` is the run's."""
    note = folder / "migrated" / "template"
    if note.exists():
        drop(url, note.read_text())


def drop(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def migrate(folder: Path, **environment: str) -> None:
    usual = {"PATH": os.environ["PATH"], "SONDE_ENV_FILE": "", "DATA_DIR": str(folder)}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env={**usual, **environment}, check=True)


@contextmanager
def turn() -> Iterator[Path]:
    """The run's folder for what is made once, held by one process at a time."""
    folder = run_folder() / "migrated"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
