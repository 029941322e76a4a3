"""Log lines, whatever is written into them."""

from __future__ import annotations

import logging
import sys

from portal.logs import RedactingFormatter

KEY = "sonde_abcdefghij_" + "s" * 43


def line(message: str, *arguments: object, error: BaseException | None = None) -> str:
    record = logging.LogRecord("research.advance", logging.INFO, __file__, 1, message, arguments, None)
    record.created = 1796040000.0
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    return RedactingFormatter().format(record)


def test_it_tells_when_how_bad_who_and_what() -> None:
    assert line("run %s ended", 7) == "2026-11-30T12:00:00Z INFO research.advance run 7 ended"


def test_it_masks_a_secret_among_the_arguments() -> None:
    assert line("refused %s", KEY).endswith("refused sonde_abcdefghij_***")


def test_it_masks_a_secret_in_a_traceback() -> None:
    try:
        raise ValueError(f"Bearer {KEY}")
    except ValueError:
        error = sys.exc_info()[1]

    written = line("failed", error=error)

    assert "Traceback" in written
    assert KEY not in written


def test_it_lets_no_message_pass_for_two_lines() -> None:
    assert line("question %s", "a\n2026-11-30T12:00:00Z INFO forged").count("\n") == 0
