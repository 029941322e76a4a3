"""How a run looks on a terminal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from research.protocol.answer import ReportView, RunView
from research.protocol.outcome import Source
from research.protocol.shell import outcome, report_text

RUN = RunView(UUID(int=1), "completed", datetime(2026, 1, 1, tzinfo=UTC), "2m", credits_charged=Decimal(1))
REPORT = ReportView("Tides form.")


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (replace(RUN, report=REPORT), "The report is completed: 0 sources. 1 credit was charged."),
        (
            replace(RUN, status="incomplete", report=replace(REPORT, incomplete_reason="max_output_tokens")),
            "The report is incomplete (max output tokens): 0 sources. 1 credit was charged.",
        ),
        (
            replace(RUN, report=REPORT, credits_charged=Decimal("2.5")),
            "The report is completed: 0 sources. 2.5 credits were charged.",
        ),
        (
            replace(RUN, status="failed", credits_refunded=Decimal(1), error_message="It went away."),
            "It went away. Nothing was charged.",
        ),
        (
            replace(RUN, status="cancelled", credits_charged=Decimal(0)),
            "The run is cancelled. Nothing was charged.",
        ),
    ],
)
def test_it_tells_how_a_run_ended_and_what_it_cost(run: RunView, line: str) -> None:
    assert outcome(run) == line


def test_it_tells_below_the_report_what_happened_on_the_way() -> None:
    text = report_text(replace(RUN, report=REPORT, notes=("agent refused the run",)))

    assert text.splitlines()[-1] == "> agent refused the run"


ESCAPES = "\x1b]52;c;bWFsaWNl\x07 \x1b[2J\x9b1m\x08\r"


def test_it_takes_no_command_from_a_report() -> None:
    source = Source(number=1, url="https://example.org/", title=f"A{ESCAPES}", provenance="cited")
    report = replace(REPORT, text=f"# Title\n\n\tText{ESCAPES}", sources=(source,), notices=(ESCAPES,))

    text = report_text(replace(RUN, report=report, notes=(ESCAPES,)))

    assert all(character.isprintable() or character in "\n\t" for character in text)
    assert text.startswith("# Title\n\n\tText\\x1b]52")


def test_it_takes_no_command_from_an_error() -> None:
    assert outcome(replace(RUN, status="failed", error_message=f"No.{ESCAPES}\n")).isprintable()
