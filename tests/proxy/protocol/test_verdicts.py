from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.refusals import error_event, refusal
from proxy.protocol.verdicts import EFFECTS, judge, out_of_uses, problem_of
from proxy.protocol.web_frame import Frame

HTML = {"content-type": "text/html; charset=UTF-8"}
JSON = {"content-type": "application/json"}
SSE = {"content-type": "text/event-stream; charset=utf-8"}
MOMENT = b"<!DOCTYPE html><html><head><title>Just a moment...</title>"
ATTENTION = b"<html><title>Attention Required! | Cloudflare</title>"
SCRIPT = b"<html><script src='/cdn-cgi/challenge-platform/h/b/orchestrate'></script>"

ANSWERS: dict[str, tuple[int, dict[str, str], bytes, Fault | None]] = {
    "a stream": (200, SSE, b"", None),
    "json": (200, JSON, b"{}", None),
    "no type at all": (200, {}, b"event: message", None),
    "created": (201, JSON, b"", None),
    "401 with json": (
        401,
        JSON,
        b'{"detail": "Not signed in"}',
        Fault(FaultKind.SIGNED_OUT, "Not signed in"),
    ),
    "401 without a body": (401, {}, b"", Fault(FaultKind.SIGNED_OUT)),
    "403 html": (403, HTML, b"<html>denied</html>", Fault(FaultKind.BLOCKED)),
    "403 html by its looks": (403, {}, b"\n <!doctype HTML><html>", Fault(FaultKind.BLOCKED)),
    "403 challenge": (403, HTML, MOMENT, Fault(FaultKind.BLOCKED)),
    "403 with the header": (403, JSON | {"cf-mitigated": "challenge"}, b"{}", Fault(FaultKind.BLOCKED)),
    "403 json": (403, JSON, b"{}", Fault(FaultKind.FORBIDDEN)),
    "403 without a body": (403, {}, b"", Fault(FaultKind.FORBIDDEN)),
    "200 html": (200, HTML, b"<html>", Fault(FaultKind.BLOCKED)),
    "200 challenge": (200, HTML, ATTENTION, Fault(FaultKind.BLOCKED)),
    "503 challenge": (503, HTML, SCRIPT, Fault(FaultKind.BLOCKED)),
    "503 html": (503, HTML, b"<html>down</html>", Fault(FaultKind.UNAVAILABLE)),
    "503 json": (503, JSON | {"retry-after": "7"}, b"{}", Fault(FaultKind.UNAVAILABLE, "", 7)),
    **{
        f"{status} html": (status, HTML, b"<html>", Fault(FaultKind.UNAVAILABLE))
        for status in range(520, 527)
    },
    "500": (500, JSON, b'{"error": {"message": "Oops"}}', Fault(FaultKind.UNAVAILABLE, "Oops")),
    "408": (408, {}, b"", Fault(FaultKind.UNAVAILABLE)),
    "429": (429, JSON, b'{"message": "Slow down"}', Fault(FaultKind.RATE_LIMITED, "Slow down")),
    "429 with seconds": (429, JSON | {"retry-after": "12"}, b"", Fault(FaultKind.RATE_LIMITED, "", 12)),
    "429 with an hour": (429, JSON | {"retry-after": "3600"}, b"", Fault(FaultKind.RATE_LIMITED, "", 60)),
    "429 with a date": (
        429,
        JSON | {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"},
        b"",
        Fault(FaultKind.RATE_LIMITED),
    ),
    "429 html": (429, HTML, b"<html>1015</html>", Fault(FaultKind.RATE_LIMITED)),
    **{
        str(status): (status, JSON, b'{"error_message": "Bad"}', Fault(FaultKind.REJECTED, "Bad"))
        for status in (400, 404, 422)
    },
    "a redirect": (307, {"location": "/login"}, b"", Fault(FaultKind.FORBIDDEN)),
    "a body of many words": (
        400,
        JSON,
        b'{"error": "' + b"x" * 5000 + b'"}',
        Fault(FaultKind.REJECTED, "x" * 800),
    ),
    "a body with a secret": (
        400,
        JSON,
        b'{"detail": "__Secure-next-auth.session-token=abcdefgh12345678 is bad"}',
        Fault(FaultKind.REJECTED, "__Secure-next-auth.session-token=*** is bad"),
    ),
    "a body that is no json": (400, JSON, b"Traceback: secret", Fault(FaultKind.REJECTED)),
}


@pytest.mark.parametrize(("status", "headers", "body", "verdict"), ANSWERS.values(), ids=ANSWERS)
def test_it_tells_the_answers_of_the_upstream_apart(
    status: int, headers: dict[str, str], body: bytes, verdict: Fault | None
) -> None:
    assert judge(status, headers, body) == verdict


@given(st.integers(100, 599), st.sampled_from([HTML, JSON, SSE, {}]), st.binary(max_size=200))
def test_it_judges_any_answer(status: int, headers: dict[str, str], body: bytes) -> None:
    verdict = judge(status, headers, body)

    assert verdict is not None or 200 <= status < 300


@pytest.mark.parametrize(("status", "is_open"), [(504, True), (524, True), (503, False), (522, False)])
def test_it_leaves_open_what_became_of_a_question_that_the_edge_gave_up(status: int, is_open: bool) -> None:
    fault = judge(status, HTML, b"<html>")

    assert fault is not None
    assert fault.is_open is is_open


def test_it_knows_what_every_fault_means() -> None:
    assert set(EFFECTS) == set(FaultKind)


def test_it_calls_only_a_signed_out_session_expired() -> None:
    """A blocked one is healthy, only not reachable: nobody is asked for a new cookie."""
    assert [kind for kind in FaultKind if EFFECTS[kind].health == "expired"] == [FaultKind.SIGNED_OUT]
    assert EFFECTS[FaultKind.BLOCKED].health == "blocked"
    assert [kind for kind in FaultKind if EFFECTS[kind].health == "limited"] == [
        FaultKind.QUOTA,
        FaultKind.RATE_LIMITED,
    ]


def test_it_asks_the_session_endpoint_before_it_believes_a_refusal() -> None:
    assert {kind for kind in FaultKind if EFFECTS[kind].check} == {FaultKind.SIGNED_OUT, FaultKind.FORBIDDEN}


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.QUOTA,
        FaultKind.SIGNED_OUT,
        FaultKind.BLOCKED,
        FaultKind.RATE_LIMITED,
        FaultKind.UNAVAILABLE,
    ],
)
def test_it_tries_another_account_for_what_is_this_accounts_trouble(kind: FaultKind) -> None:
    assert EFFECTS[kind].elsewhere


PROBLEMS: dict[FaultKind, tuple[int, str, str, dict[str, str]]] = {
    kind: (502, "upstream_error", "upstream_error", {}) for kind in FaultKind
} | {
    FaultKind.QUOTA: (429, "rate_limit_error", "insufficient_quota", {"x-should-retry": "false"}),
    FaultKind.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded", {"Retry-After": "9"}),
    **{
        kind: (502, "upstream_error", "upstream_error", {"x-should-retry": "false"})
        for kind in (FaultKind.SIGNED_OUT, FaultKind.BLOCKED, FaultKind.FORBIDDEN, FaultKind.REJECTED)
    },
}


@pytest.mark.parametrize("kind", FaultKind)
def test_it_tells_the_caller(kind: FaultKind) -> None:
    problem = problem_of(Fault(kind, "Their words.", 9))

    assert (problem.status, problem.type, problem.code, problem.headers) == PROBLEMS[kind]
    assert problem.param is None
    assert problem.message.endswith("(Their words.)")


def test_it_always_names_a_time_to_wait() -> None:
    assert problem_of(Fault(FaultKind.RATE_LIMITED)).headers == {"Retry-After": "1"}
    assert problem_of(Fault(FaultKind.RATE_LIMITED, retry_after=0)).headers == {"Retry-After": "1"}


def test_it_refuses_by_itself_what_the_upstream_would_refuse() -> None:
    assert out_of_uses().body() == problem_of(Fault(FaultKind.QUOTA)).body()


REFUSALS: list[tuple[Frame, Fault | None]] = [
    (Frame(), None),
    (Frame(status="PENDING", error=None, error_code="", upsell_information={}), None),
    (Frame(upsell_information={"name": "advanced_models_quota_low"}), Fault(FaultKind.QUOTA)),
    (Frame(upsell_information={"name": "x", "upsell_type": "upgrade_to_max"}), Fault(FaultKind.QUOTA)),
    (Frame(upsell_information={"name": "x", "upsell_type": "LOGIN"}), Fault(FaultKind.SIGNED_OUT)),
    (Frame(upsell_information={"name": "fraud_authwall_upsell"}), Fault(FaultKind.SIGNED_OUT)),
    (Frame(upsell_information={"name": "logged_out_thread_sign_in"}), Fault(FaultKind.SIGNED_OUT)),
    (Frame(upsell_information={"name": 5, "upsell_type": None}), None),
    (Frame(upsell_information="quota"), None),
    (
        Frame(upsell_information={"name": "quota", "title": "", "description": "Wait"}),
        Fault(FaultKind.QUOTA, "Wait"),
    ),
    (Frame(status="FAILED"), Fault(FaultKind.REFUSED)),
    (Frame(status="FAILED", error_message="Not in this mode"), Fault(FaultKind.REFUSED, "Not in this mode")),
    (Frame(error="boom"), Fault(FaultKind.REFUSED, "boom")),
    (Frame(error={"code": "RATE_LIMIT_X", "message": "Slow"}), Fault(FaultKind.RATE_LIMITED, "Slow")),
    (Frame(error=True), Fault(FaultKind.REFUSED)),
    (Frame(error_code="RATE_LIMIT_EXCEEDED"), Fault(FaultKind.RATE_LIMITED, "RATE_LIMIT_EXCEEDED")),
    (Frame(error_code=17), Fault(FaultKind.REFUSED)),
]


@pytest.mark.parametrize(("frame", "fault"), REFUSALS, ids=str)
def test_it_finds_the_refusal_in_a_frame(frame: Frame, fault: Fault | None) -> None:
    assert refusal(frame) == fault


EVENTS = [
    (b"upstream unavailable", Fault(FaultKind.REFUSED, "upstream unavailable")),
    (b'"quoted"', Fault(FaultKind.REFUSED, "quoted")),
    (b'{"error": "boom"}', Fault(FaultKind.REFUSED, "boom")),
    (b'{"error": {"message": "inner"}}', Fault(FaultKind.REFUSED, "inner")),
    (b'{"code": "RATE_LIMIT", "detail": "Slow"}', Fault(FaultKind.RATE_LIMITED, "Slow")),
    (b"", Fault(FaultKind.REFUSED)),
    (b"\xff\n two  lines", Fault(FaultKind.REFUSED, "\ufffd two lines")),
]


@pytest.mark.parametrize(("data", "fault"), EVENTS)
def test_it_reads_an_error_event(data: bytes, fault: Fault) -> None:
    assert error_event(data) == fault
