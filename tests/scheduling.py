"""Which worker runs which tests, and when: what waits for processes of its own first, a file at a time.

A file's tests share what was started for them, so they stay together. What is quick comes last, in small
pieces: it fills what the slow tests leave of the machine, and all workers end at about the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

PIECE = 120
"""Tests of one file that a worker takes at once, at most: more than any slow file has."""


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def in_order(items: Sequence[pytest.Item], turn: Callable[[pytest.Item], int]) -> list[pytest.Item]:
    """Turn by turn; in each turn the fullest files first, and a file's tests together."""
    turns = {item: (turn(item), file_of(item.nodeid)) for item in items}
    sizes = Counter(turns.values())
    return sorted(items, key=lambda item: (turns[item][0], -sizes[turns[item]], turns[item][1]))


class FileByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist carries no types
    """Hands tests out in the order in which the workers have them, in pieces of files."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False  # it would begin with the largest pieces
        super().__init__(config, log)
        self._pieces: dict[str, str] | None = None

    def _split_scope(self, nodeid: str) -> str:
        if self._pieces is None:
            assert self.collection is not None
            self._pieces = dict(pieces_of(self.collection))
        return self._pieces[nodeid]

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        # What is done would be counted again with every test that ends.
        piece = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][piece].values()):
            del self.assigned_work[node][piece]


def pieces_of(nodeids: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Each test with the name of its piece, which is that of the piece's first test."""
    for _, tests in groupby(nodeids, file_of):
        first = ""
        for number, nodeid in enumerate(tests):
            first = nodeid if number % PIECE == 0 else first
            yield nodeid, first
