"""Log lines: one per record, secrets masked whatever wrote them.

Line ends within a message are shown as such: what a client sent must not look like a line of ours.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from portal.wire.redact import redact


class RedactingFormatter(logging.Formatter):
    """`2026-11-30T12:00:00Z INFO research.advance run ended`; tracebacks are redacted too."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        text = f"{moment} {record.levelname} {record.name} {message}"
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return redact(text)
