"""Threads that runs have left at web sessions: gone when the runs are (SPEC 10.11)."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from proxy.services.forgetting import forget
from research.models.runs import Run


def forget_threads(runs: Collection[UUID]) -> None:
    """Have the upstream threads of these hidden runs deleted. It holds once the caller's transaction does."""
    keys = Run.objects.filter(pk__in=runs).values_list("upstream_key", flat=True)
    forget(list(keys))
