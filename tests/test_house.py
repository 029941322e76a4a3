"""What the house promises about its own source, where no linter looks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from research.api.starting import LARGEST_REQUEST
from tests.environment import ROOT

OURS = ("portal", "proxy", "research", "sandbox")
PURE = ("portal/wire", "proxy/protocol", "research/protocol")
EXTRAS = {"psycopg": ("binary", "pool"), "uvicorn": ("standard",)}
CLOCKS = {"now", "utcnow", "today", "uuid1", "uuid4", "urandom", "perf_counter", "monotonic"}


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_it_keeps_every_package_file_empty() -> None:
    full = [str(path) for path in sources(*OURS) if path.name == "__init__.py" and path.read_text().strip()]

    assert full == []


def test_it_has_no_room_for_odds_and_ends() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)$")
    found = [str(path) for path in sources(*OURS) if vague.search(path.stem)]

    assert found == []


def imports_of(path: Path) -> set[str]:
    """Modules and names that a file takes from ours, those that it takes late included."""
    taken = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            taken |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            taken |= {name.name for name in node.names}
    return taken


def test_it_has_no_two_files_that_need_each_other() -> None:
    """Not even inside of functions, where the linter of imports finds no fault with it."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sources(*OURS)}
    needs = {name: imports_of(path) & modules.keys() - {name} for name, path in modules.items()}

    TopologicalSorter(needs).prepare()  # raises CycleError, which names them


def test_it_reads_no_clock_and_no_chance_in_the_pure_rooms() -> None:
    pure = [path for path in sources(*PURE) if path.name != "ids.py"]  # new ids are chance by nature
    calls = [
        f"{path}:{node.lineno}"
        for path in pure
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS
    ]

    assert calls == []


def test_it_puts_no_possessive_quantifier_on_a_group() -> None:
    """Pythons before 3.11.5, Debian 12's for one, keep half of a repetition there (gh-106052)."""
    possessive = re.compile(r"[)](?:[*+?]|[{]{1,2}[0-9]*,?[0-9]*[}]{1,2})[+]")
    found = [
        f"{path}:{number}"
        for path in sources(*OURS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if possessive.search(line)
    ]

    assert found == []


def test_it_locks_no_row_so_that_others_cannot_refer_to_it() -> None:
    """`FOR UPDATE` would have whoever writes a row that refers to the locked one wait at their commit, in no
    order: deadlocks under load."""
    found = [
        f"{path}:{node.lineno}"
        for path in sources("portal", "proxy", "research")
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Constant) and re.search(r"\bFOR UPDATE\b", str(node.value)))
        or (isinstance(node, ast.Call) and _locks_key(node))
    ]

    assert found == []


def _locks_key(call: ast.Call) -> bool:
    is_lock = isinstance(call.func, ast.Attribute) and call.func.attr == "select_for_update"
    return is_lock and not any(keyword.arg == "no_key" for keyword in call.keywords)


def pins(*names: str) -> dict[str, set[str]]:
    """Canonical name → the exact versions pinned in those lists (more than one by platform)."""
    found: dict[str, set[str]] = {}
    for name in names:
        for line in (ROOT / name).read_text().splitlines():
            if match := re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)", line):
                found.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return found


def test_it_has_the_proxy_of_the_docs_let_every_request_through() -> None:
    told = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    megabytes = re.findall(r"client_max_body_size (\d+)m;", told)

    assert [int(most) * 2**20 >= LARGEST_REQUEST for most in megabytes] == [True]


def test_it_pins_every_requirement_exactly() -> None:
    lines = [
        line
        for name in ("requirements.txt", "requirements-dev.txt", "constraints.txt")
        for line in (ROOT / name).read_text().splitlines()
        if line and not line.startswith(("#", "-")) and "==" not in line
    ]

    assert lines == []


def test_it_pins_whatever_the_requirements_bring_along() -> None:
    pinned = pins("requirements.txt", "requirements-dev.txt", "constraints.txt")
    waiting = list(pins("requirements.txt", "requirements-dev.txt"))
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += children(name)

    assert seen - set(pinned) == set()


def children(name: str) -> Iterator[str]:
    for text in requires(name) or []:
        needed = Requirement(text)
        extras = ("", *EXTRAS.get(name, ()))
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            yield canonicalize_name(needed.name)


def test_it_runs_with_the_versions_it_pins() -> None:
    pinned = pins("requirements.txt", "requirements-dev.txt")
    other = {name: found for name in pinned if (found := distribution(name).version) not in pinned[name]}

    assert other == {}
