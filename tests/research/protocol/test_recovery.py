from __future__ import annotations

import pytest

from research.protocol.outcome import Fault
from research.protocol.recovery import AGAIN, FAIL, NEXT, NOTHING_WAS_SENT, TRIES, Course, after_refusal


@pytest.mark.parametrize(
    ("fault", "has_next", "takes_key", "course"),
    [
        (Fault.RETIRED, True, False, NEXT),
        (Fault.RETIRED, False, True, FAIL),
        (Fault.ORGANISATION_KEY, True, False, NEXT),
        (Fault.FORBIDDEN, True, False, NEXT),
        (Fault.BAD_KEY, True, False, NEXT),
        (Fault.BAD_KEY, False, False, FAIL),
        (Fault.QUOTA, True, False, NEXT),
        (Fault.OUTAGE, True, True, NEXT),
        (Fault.OUTAGE, False, True, AGAIN),
        (Fault.OUTAGE, False, False, FAIL),
        (Fault.RATE_LIMITED, True, False, AGAIN),
        (Fault.UNREACHABLE, True, False, AGAIN),
        (Fault.LOST, True, False, FAIL),
        (Fault.LOST, True, True, AGAIN),
        (Fault.BROKEN, True, False, FAIL),
        (Fault.BROKEN, True, True, AGAIN),
        (Fault.INVALID, True, True, FAIL),
    ],
)
def test_it_knows_what_a_first_refusal_means(
    fault: Fault, has_next: bool, takes_key: bool, course: Course
) -> None:
    assert after_refusal(fault, faults=1, has_next=has_next, takes_key=takes_key) == course


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("takes_key", [True, False])
def test_it_never_tries_a_backend_for_ever_while_another_is_left(fault: Fault, takes_key: bool) -> None:
    assert after_refusal(fault, faults=TRIES, has_next=True, takes_key=takes_key) is not AGAIN


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("takes_key", [True, False])
def test_it_tries_the_last_backend_until_the_deadline_only_where_nothing_was_sent(
    fault: Fault, takes_key: bool
) -> None:
    course = after_refusal(fault, faults=1000, has_next=False, takes_key=takes_key)
    assert (course is AGAIN) == (fault in NOTHING_WAS_SENT)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.BROKEN])
@pytest.mark.parametrize("has_next", [True, False])
def test_it_never_sends_again_what_may_have_arrived_where_no_key_protects_it(
    fault: Fault, has_next: bool
) -> None:
    assert after_refusal(fault, faults=1, has_next=has_next, takes_key=False) is FAIL


def test_it_moves_on_when_a_rate_limit_does_not_end() -> None:
    assert after_refusal(Fault.RATE_LIMITED, faults=TRIES, has_next=True, takes_key=False) is NEXT
