"""The commands as a terminal shows them: what is refused is one line, whatever the cause."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import warm_start

pytestmark = pytest.mark.slow


def refused(folder: Path, *arguments: str, **environment: str) -> str:
    """What the command said on standard error, and nothing on standard output, with exit code 1."""
    own = {"PATH": os.defpath, "SONDE_ENV_FILE": "", "DATA_DIR": str(folder), **environment}
    done = warm_start.run(["manage.py", *arguments], own, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize(
    "arguments", [("create_user", "ada@example.org"), ("ledger_check",), ("rotate_keys",)]
)
def test_it_asks_for_a_first_start_when_there_is_no_database_yet(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    said = refused(tmp_path, *arguments)

    assert said == "sonde: the database is not up to date: run bin/up once, or manage.py migrate\n"


def test_it_says_that_the_database_does_not_answer(tmp_path: Path) -> None:
    said = refused(
        tmp_path,
        "ledger_check",
        SONDE_MODE="cluster",
        DATABASE_URL="postgresql://sonde:secret@127.0.0.1:1/sonde",
        REDIS_URL="redis://127.0.0.1:1/0",
    )

    assert said.splitlines()[-1].startswith("sonde: the database does not answer: ")
    assert "Traceback" not in said
    assert "secret" not in said


def test_it_shows_the_trace_to_who_asks_for_it(tmp_path: Path) -> None:
    assert "Traceback" in refused(tmp_path, "ledger_check", "--traceback")
