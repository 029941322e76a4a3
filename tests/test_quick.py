"""What `bin/test --quick` is made of, and where the tests' files are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest, run
from tests.environment import ROOT


@pytest.mark.parametrize(
    ("folder", "is_left_out"),
    [
        ("tests/proxy/api", True),
        ("tests/portal/roof", True),
        ("tests/journeys", True),
        ("tests/proxy/protocol", False),
        ("tests/research/services", False),
    ],
)
def test_it_reads_neither_doors_nor_journeys_in_the_quick_run(folder: str, is_left_out: bool) -> None:
    def left_out(*, quick: bool) -> bool:
        config: Any = SimpleNamespace(getoption=lambda name: quick)
        return bool(conftest.pytest_ignore_collect(ROOT / folder, config))

    assert left_out(quick=True) is is_left_out
    assert not left_out(quick=False)


def test_it_keeps_files_in_memory_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MEMORY", tmp_path)
    monkeypatch.setattr(run, "ROOM", 1)
    assert run.roomy_memory() == tmp_path

    monkeypatch.setattr(run, "ROOM", 2**60)
    assert run.roomy_memory() is None


def test_it_keeps_files_on_the_disk_where_there_is_no_such_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MEMORY", tmp_path / "none")
    assert run.roomy_memory() is None
