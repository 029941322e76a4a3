from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.protocol.outcome import Fault
from research.protocol.refusals import LONGEST_MESSAGE, LONGEST_WAIT, Call, refusal
from tests.research.protocol.samples import NOW, sample

CALLS: tuple[Call, ...] = ("create", "poll", "cancel")


def fault(call: Call, status: int, body: bytes = b"") -> Fault:
    return refusal(call, status, {}, body, NOW).fault


def message(body: bytes) -> str:
    return refusal("poll", 400, {}, body, NOW).message


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, "retired.json", Fault.RETIRED),
        (403, "migration_required_type.json", Fault.RETIRED),
        (403, "migration_required_code.json", Fault.RETIRED),
        (403, "migration_required_text.json", Fault.RETIRED),
        (403, "organisation_key.json", Fault.ORGANISATION_KEY),
        (403, "blocked.json", Fault.FORBIDDEN),
        (403, "challenge.html", Fault.FORBIDDEN),
        (401, "invalid_key.json", Fault.BAD_KEY),
        (402, "no_credit.json", Fault.QUOTA),
        (429, "rate_limited.json", Fault.RATE_LIMITED),
        (422, "unprocessable.json", Fault.INVALID),
        (500, "bad_gateway.html", Fault.OUTAGE),
        (502, "bad_gateway.html", Fault.OUTAGE),
        (503, "retired.json", Fault.OUTAGE),
    ],
)
def test_it_tells_refusals_apart(call: Call, status: int, body: str, expected: Fault) -> None:
    assert fault(call, status, sample(f"refusals/{body}")) is expected


@pytest.mark.parametrize(
    ("call", "status", "expected"),
    [
        ("poll", 404, Fault.GONE),
        ("cancel", 404, Fault.GONE),
        ("create", 404, Fault.RETIRED),
        ("create", 405, Fault.RETIRED),
        ("create", 410, Fault.RETIRED),
        ("cancel", 400, Fault.TERMINAL),
        ("create", 400, Fault.INVALID),
        ("poll", 400, Fault.INVALID),
        ("create", 413, Fault.INVALID),
        ("create", 424, Fault.INVALID),
        ("create", 504, Fault.LOST),
        ("create", 524, Fault.LOST),
        ("poll", 504, Fault.OUTAGE),
        ("create", 408, Fault.OUTAGE),
        ("create", 301, Fault.OUTAGE),
    ],
)
def test_it_reads_a_status_by_what_was_asked(call: Call, status: int, expected: Fault) -> None:
    assert fault(call, status) is expected


def test_it_takes_a_spent_quota_for_no_passing_rate_limit() -> None:
    assert (
        fault("create", 429, b'{"error":{"message":"no money","code":"insufficient_quota"}}') is Fault.QUOTA
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (sample("refusals/unknown_field.json"), 'invalid request body: json: unknown field "X"'),
        (sample("refusals/unprocessable.json"), "Field required; Bad value"),
        (b'{"error_message":"it failed"}', "it failed"),
        (b'{"detail":"Not here"}', "Not here"),
        (b'{"error":{"message":"  two\\n lines "}}', "two lines"),
        (b'{"error":{"message":"key pplx-abcdefghijklmnop is bad"}}', "key pplx-*** is bad"),
    ],
)
def test_it_shows_the_upstreams_own_sentence(body: bytes, expected: str) -> None:
    assert message(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"plain words",
        sample("refusals/bad_gateway.html"),
        b'{"error":"text"}',
        b'{"error":{"message":5}}',
        b"[]",
        b'{"error":{"message":"<html><body>Sorry</body></html>"}}',
        b'{"message":{"deep":"er"}}',
        b'{"error":{"message":"',
        b"\xff\xfe\x00",
        b'{"error":{"type":"x","code":"y"}}',
    ],
)
def test_it_never_shows_a_body(body: bytes) -> None:
    assert message(body) == "The upstream answered HTTP 400."


def test_it_cuts_a_long_sentence_after_masking_it() -> None:
    long = message(b'{"error":{"message":"' + b"a " * 395 + b"pplx-" + b"s" * 5000 + b'"}}')
    assert len(long) <= LONGEST_MESSAGE
    assert "ssss" not in long


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        (" 0 ", 0.0),
        ("Mon, 30 Nov 2026 12:00:45 GMT", 45.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("Mon, 30 Nov 2026 13:01:00 +0100", 60.0),
        ("999999999", LONGEST_WAIT),
        ("Tue, 30 Nov 2083 12:00:45 GMT", LONGEST_WAIT),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("99 Foo 99999 99:99:99", None),
    ],
)
def test_it_reads_retry_after_as_seconds_or_as_a_date(value: str, seconds: float | None) -> None:
    assert refusal("create", 429, {"Retry-After": value}, b"", NOW).retry_after == seconds


def test_it_finds_retry_after_whatever_the_case_of_its_name() -> None:
    assert refusal("create", 503, {"RETRY-AFTER": "3"}, b"", NOW).retry_after == 3.0
    assert refusal("create", 503, {}, b"", NOW).retry_after is None


@given(
    st.sampled_from(CALLS),
    st.integers(100, 999),
    st.dictionaries(st.just("retry-after"), st.text()),
    st.binary(),
)
def test_it_has_one_refusal_for_any_answer(
    call: Call, status: int, headers: dict[str, str], body: bytes
) -> None:
    refused = refusal(call, status, headers, body, datetime(2026, 1, 1, tzinfo=UTC))
    assert refused.message
    assert refused.retry_after is None or 0 <= refused.retry_after <= LONGEST_WAIT
