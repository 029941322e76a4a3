"""Every quirk that the sandbox plays has its row, and no row has lost what it speaks of.

That the tests fail without the handlings is what `python -m tests.quirks` shows.
"""

from __future__ import annotations

import re

from sandbox.keys import TROUBLES
from sandbox.scenarios import MARKERS, PREFIXES
from sandbox.web.accounts import FLAGS, STANDINGS, TIERS
from sandbox.web.markers import BRIDGES, PROCESSING, SHAPES, UPLOADS
from sandbox.world import MODES
from tests.environment import ROOT
from tests.quirks.row import place_of, source_of
from tests.quirks.table import QUIRKS, ROWS

LINES = {*(f"web {number}" for number in range(1, 9)), *(f"api {number}" for number in range(1, 8))}
NUMBERED = ("rotating", "slots", "left")
"""Words of an account that a number follows."""
VALUES = {"shape": SHAPES, "bridge": BRIDGES, "processing": PROCESSING, "upload": UPLOADS}
"""Markers whose every value is a quirk of its own."""


def words() -> set[str]:
    return {word for row in ROWS for word in row.played_by.split()}


def without_phase(marker: str) -> str:
    """A fault is one quirk, whichever exchange it strikes."""
    found = next((prefix for prefix in PREFIXES.values() if prefix and marker.startswith(prefix)), "")
    return marker.removeprefix(found) if marker.removeprefix(found) in MARKERS else marker


def played() -> set[str]:
    """All that the sandbox can be told to do."""
    plain = {without_phase(name) for name in MARKERS if name not in VALUES}
    valued = {f"{name}={value}" for name, values in VALUES.items() for value in values}
    return {*plain, *valued, *FLAGS, *STANDINGS, *TIERS, *NUMBERED, *TROUBLES, *MODES} - {"active"}


def test_it_has_a_row_for_whatever_the_sandbox_plays() -> None:
    told = {word for name in words() for word in (name, name.partition("=")[0], without_phase(name))}

    assert played() - told == set()


def test_it_speaks_of_nothing_that_the_sandbox_does_not_play() -> None:
    known = {*played(), *MARKERS, "pplx-retired"}

    assert {word for word in words() if not {word, word.partition("=")[0]} & known} == set()


def test_it_has_every_line_of_both_references() -> None:
    assert {row.line.partition(":")[0] for row in ROWS} == LINES


def test_it_names_no_line_twice() -> None:
    names = [row.line for row in ROWS]

    assert sorted(names) == sorted(set(names))


def test_it_still_finds_the_handlings() -> None:
    lost = []
    for quirk in QUIRKS:
        try:
            quirk.without(source_of(quirk))
        except (OSError, LookupError) as error:
            lost.append(f"{quirk.line}: {error}")

    assert lost == []


def test_it_still_finds_the_tests() -> None:
    missing = []
    for quirk in QUIRKS:
        path, _, name = quirk.test.partition("::")
        try:
            place_of((ROOT / "tests" / path).read_text(encoding="utf-8"), re.sub(r"\[.*", "", name))
        except (OSError, LookupError):
            missing.append(quirk.test)

    assert missing == []
