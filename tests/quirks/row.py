"""One quirk of the upstream: what in the product copes with it, and the test that fails without that."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.environment import ROOT

Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True)
class Quirk:
    """`line`: number of the reference's line, and its words (perplexity-web §17, perplexity-api §9).

    `played_by`: the sandbox's own words for it: markers, words of an account, beginnings of a key, modes.
    `handling` and `test`: `path::name`, a name within a class as `Class.name`; the test's path begins
    behind `tests/`, and its parameters may follow. `written` stands once within the handling; with
    `instead` in its place the quirk is no longer handled.
    """

    line: str
    played_by: str
    handling: str
    written: str
    instead: str
    test: str

    @property
    def path(self) -> str:
        return self.handling.partition("::")[0]

    def without(self, source: str) -> str:
        """`source` of the handling's file with the handling taken out. Raises LookupError."""
        first, last = place_of(source, self.handling.partition("::")[2])
        lines = source.splitlines(keepends=True)
        region = "".join(lines[first - 1 : last])
        if region.count(self.written) != 1:
            found = region.count(self.written)
            raise LookupError(f"{self.line}: {self.written!r} stands {found} times in {self.handling}")
        return "".join([*lines[: first - 1], region.replace(self.written, self.instead), *lines[last:]])


@dataclass(frozen=True, slots=True)
class Unused:
    """What the sandbox plays and the product has nothing to do with; `why` says so to who doubts it."""

    line: str
    played_by: str
    why: str


def place_of(source: str, name: str) -> tuple[int, int]:
    """First and last line of what `source` calls `name`. Raises LookupError."""
    body: Sequence[ast.stmt] = _tree(source).body
    first = last = 0
    for step in name.split("."):
        found = next((node for node in _named(body) if step in _names(node)), None)
        if found is None:
            raise LookupError(f"there is no {name}")
        first, last = found.lineno, found.end_lineno or found.lineno
        body = found.body if isinstance(found, ast.ClassDef) else ()
    return first, last


@lru_cache(maxsize=256)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def _named(body: Sequence[ast.stmt]) -> Iterator[Named]:
    return (node for node in body if isinstance(node, Named))


def _names(node: Named) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    return [node.name]


def source_of(quirk: Quirk, root: Path = ROOT) -> str:
    return (root / quirk.path).read_text(encoding="utf-8")
