"""Log lines, whatever is written into them."""

from __future__ import annotations

import logging
import sys

import pytest

from portal.logs import LONGEST_LINE, MOST_LINES, RedactingFormatter, Strangers

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


@pytest.mark.parametrize("character", ["\x00", "\x1b[2J", "\x07", "\x0b", "\x85", "\u2028", "\x7f", "\r"])
def test_it_moves_no_cursor(character: str) -> None:
    written = line("path %s", f"a{character}b", error=ValueError(f"c{character}d"))

    assert character[0] not in written


def test_it_keeps_the_lines_of_a_traceback() -> None:
    assert line("failed", error=ValueError("one\n\ttwo")).endswith("one\n\ttwo")


def told(
    lines: Strangers, name: str, message: str = "no", *, second: float = 0.0, level: int = logging.ERROR
) -> str | None:
    """What is written of a record; None when nothing is."""
    record = logging.LogRecord(name, level, __file__, 1, "%s", (message,), None)
    record.created = second
    record.exc_info = (ValueError, ValueError("x"), None)
    return RedactingFormatter().format(record).partition(f"{name} ")[2] if lines.filter(record) else None


HOST = "django.security.DisallowedHost"


def test_it_tells_of_strangers_without_a_traceback() -> None:
    assert told(Strangers(), HOST, "Invalid HTTP_HOST header") == "Invalid HTTP_HOST header"


def test_it_gives_strangers_no_long_lines() -> None:
    assert told(Strangers(), HOST, "h" * 60_000) == "h" * LONGEST_LINE


def test_it_counts_strangers_instead_of_telling_of_each() -> None:
    lines = Strangers()

    first = [told(lines, HOST, second=n / 100) for n in range(MOST_LINES + 30)]

    assert first == ["no"] * MOST_LINES + [None] * 30
    assert told(lines, HOST, second=61) == "no (and 30 more before)"
    assert told(lines, HOST, second=62) == "no"


def test_it_counts_each_kind_by_itself() -> None:
    lines = Strangers()
    for _ in range(MOST_LINES + 1):
        told(lines, HOST)

    assert told(lines, "django.security.csrf")
    assert told(lines, "uvicorn.error", level=logging.WARNING)


@pytest.mark.parametrize(
    ("name", "level"),
    [("uvicorn.error", logging.ERROR), ("django.request", logging.ERROR), ("portal", logging.WARNING)],
)
def test_it_leaves_our_own_troubles_whole(name: str, level: int) -> None:
    lines = Strangers()

    written = [told(lines, name, level=level) for _ in range(MOST_LINES + 5)]

    assert all(text and "ValueError: x" in text for text in written)
