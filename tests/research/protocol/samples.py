"""Golden bytes, written from the reference and not by our parsers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "samples"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def sample(name: str) -> bytes:
    return (FOLDER / name).read_bytes()
