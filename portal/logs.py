"""Log lines: one per record, secrets masked whatever wrote them.

Line ends and other control characters are shown as such: what a client sent must not look like a
line of ours, nor move the cursor of whoever reads it.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

from portal.wire.controls import in_lines, in_one_line
from portal.wire.redact import redact

MOST_LINES = 20
"""A minute, of each kind of thing that strangers bring about."""
LONGEST_LINE = 300


class RedactingFormatter(logging.Formatter):
    """`2026-11-30T12:00:00Z INFO research.advance run ended`; tracebacks are redacted too."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"{moment} {record.levelname} {record.name} {in_one_line(record.getMessage())}"
        if record.exc_info:
            text = f"{text}\n{in_lines(self.formatException(record.exc_info))}"
        return redact(text)


class Strangers(logging.Filter):
    """What anybody can bring about as often as they like, a wrong Host header for one, is told in one
    short line without a traceback, so many times a minute, and then counted."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[int, int]] = {}
        """Kind → minute, and how many there were in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not _is_strangers_doing(record):
            return True
        with self._lock:
            left_out = self._left_out(record.name, int(record.created // 60))
        if left_out is None:
            return False
        text = record.getMessage()[:LONGEST_LINE]
        record.msg = f"{text} (and {left_out} more before)" if left_out else text
        record.args, record.exc_info, record.exc_text = (), None, None
        return True

    def _left_out(self, kind: str, now: int) -> int | None:
        """How many were left out when it was last told of; None when this one is, too."""
        minute, count = self._seen.get(kind, (now, 0))
        if minute == now:
            self._seen[kind] = (now, count + 1)
            return 0 if count < MOST_LINES else None
        self._seen[kind] = (now, 1)
        return max(count - MOST_LINES, 0)


def _is_strangers_doing(record: logging.LogRecord) -> bool:
    """Refusals of Django, and of uvicorn what is no HTTP."""
    if record.name.startswith("django.security."):
        return True
    return record.name == "uvicorn.error" and record.levelno == logging.WARNING
