"""What to do when a submission is refused: one table, no side effects (SPEC 3.1-3.2).

A refusal that another backend can cure moves on; one that time can cure is tried again; an
answer that was lost is an open question, which only an upstream with idempotency keys can
close. A living process never sends a second time on a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from research.protocol.outcome import Fault

CURED_BY_ANOTHER = frozenset(
    {
        Fault.ABSENT,
        Fault.RETIRED,
        Fault.ORGANISATION_KEY,
        Fault.FORBIDDEN,
        Fault.BAD_KEY,
        Fault.QUOTA,
        Fault.OUTAGE,
    }
)
NOTHING_WAS_SENT = frozenset({Fault.RATE_LIMITED, Fault.BUSY, Fault.UNREACHABLE})
OPEN_QUESTION = frozenset({Fault.LOST, Fault.BROKEN})
TRIES = 5
"""On one backend, before the next is asked; and where each try may have left a job upstream."""
UNKNOWN = "upstream_submission_unknown"


@dataclass(frozen=True, slots=True)
class Course:
    """`again` on the same backend, `next` backend, or `fail`."""

    step: Literal["again", "next", "fail"]


AGAIN, NEXT, FAIL = Course("again"), Course("next"), Course("fail")


def after_refusal(fault: Fault, *, faults: int, has_next: bool, takes_key: bool) -> Course:
    """`faults` counts this refusal too; `takes_key`: the upstream honours idempotency keys.

    Where nothing was sent and nobody else can be asked, time alone can help: it is tried again until
    the run's deadline. A low tier may send five deep researches a minute (perplexity-api §5.11), so
    that ten questions at once are a rate limit that ends by itself.
    """
    tries_left = faults < TRIES
    if fault in NOTHING_WAS_SENT and (tries_left or not has_next):
        return AGAIN
    if fault in OPEN_QUESTION:
        return AGAIN if takes_key and tries_left else FAIL
    if fault is Fault.OUTAGE and takes_key and not has_next and tries_left:
        return AGAIN
    if has_next and (fault in CURED_BY_ANOTHER or fault in NOTHING_WAS_SENT):
        return NEXT
    return FAIL
