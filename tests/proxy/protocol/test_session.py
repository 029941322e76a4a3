from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.quota import Quota, SolverFailed, read_quota, read_solved, solver_request
from proxy.protocol.session import (
    LONGEST_IMPORT,
    TOKEN,
    NotASession,
    SignedIn,
    Tier,
    cookie_header,
    import_jar,
    merge,
    read_session,
    token_of,
)

SECRET = "eyJhbGciOiJkaXIi..abc-DEF_123.xyz"
JSON = {"content-type": "application/json"}

IMPORTS: dict[str, tuple[str, dict[str, str]]] = {
    "a bare token": (f"  {SECRET}\n", {TOKEN: SECRET}),
    "a quoted token": (f'"{SECRET}"', {TOKEN: SECRET}),
    "a padded token": (f"{SECRET}==", {TOKEN: f"{SECRET}=="}),
    "one pair": (f"{TOKEN}={SECRET}", {TOKEN: SECRET}),
    "a cookie line": (
        f"Cookie: cf_clearance=c=1; {TOKEN}={SECRET}; AWSALB=x/y+z",
        {"cf_clearance": "c=1", TOKEN: SECRET, "AWSALB": "x/y+z"},
    ),
    "a cookie line with broken pairs": (f"a; =b; {TOKEN}={SECRET};;", {TOKEN: SECRET}),
    "an object": (json.dumps({TOKEN: SECRET, "__cf_bm": "b", "n": 5}), {TOKEN: SECRET, "__cf_bm": "b"}),
    "an object under cookies": (json.dumps({"cookies": {TOKEN: SECRET}, "timestamp": 1}), {TOKEN: SECRET}),
    "a list": (json.dumps([{"name": TOKEN, "value": SECRET, "domain": "x"}, 7]), {TOKEN: SECRET}),
    "a list under cookies": (json.dumps({"cookies": [{"name": TOKEN, "value": SECRET}]}), {TOKEN: SECRET}),
    "an answer of the admin API": (json.dumps({"session_token": SECRET}), {TOKEN: SECRET}),
    "the name that gets free answers": (f"next-auth.session-token={SECRET}", {TOKEN: SECRET}),
    "both names": (f"next-auth.session-token=old-old-old-old-old; {TOKEN}={SECRET}", {TOKEN: SECRET}),
    "parts": (
        f"{TOKEN}.1=world-part-two; {TOKEN}.0=hello-part-one",
        {f"{TOKEN}.1": "world-part-two", f"{TOKEN}.0": "hello-part-one"},
    ),
    "parts without the prefix": (
        '{"next-auth.session-token.0": "hello-part-one", "next-auth.session-token.1": "world"}',
        {f"{TOKEN}.0": "hello-part-one", f"{TOKEN}.1": "world"},
    ),
    "a row of Chrome's developer tools": (
        f"{TOKEN}\t{SECRET}\t.perplexity.ai\t/\t2026-12-30T00:00:00.000Z\t1042\t✓\t✓\tLax\t\t\tMedium",
        {TOKEN: SECRET},
    ),
    "two rows of parts": (
        f"{TOKEN}.0\thello-part-one\t.perplexity.ai\t/\n{TOKEN}.1\tworld\t.perplexity.ai\t/",
        {f"{TOKEN}.0": "hello-part-one", f"{TOKEN}.1": "world"},
    ),
    "a row of Firefox's storage": (f'{TOKEN}:"{SECRET}"', {TOKEN: SECRET}),
    "a cookies.txt": (
        "# Netscape HTTP Cookie File\n.perplexity.ai\tTRUE\t/\tTRUE\t1893456000\tcf_clearance\tc=1; x\n"
        f"#HttpOnly_.perplexity.ai\tTRUE\t/\tTRUE\t1893456000\t{TOKEN}\t{SECRET}\n",
        {TOKEN: SECRET},
    ),
    "a request copied as cURL": (
        f"curl 'https://www.perplexity.ai/' \\\n  -b 'a=b; {TOKEN}={SECRET}' \\\n  --compressed",
        {TOKEN: SECRET},
    ),
    "the end of a request copied as cURL": (f"-b 'a=b; {TOKEN}={SECRET}'", {TOKEN: SECRET}),
    "values that no header can carry": (
        json.dumps({TOKEN: SECRET, "a b": "x", "c": "x;y", "d": "x\r\ny"}),
        {TOKEN: SECRET},
    ),
}


@pytest.mark.parametrize(("pasted", "jar"), IMPORTS.values(), ids=IMPORTS)
def test_it_takes_a_session_in_any_form(pasted: str, jar: dict[str, str]) -> None:
    assert import_jar(pasted) == jar


NONE_IN_IT = [
    "",
    "   ",
    "short",
    "two words are no token at all",
    "line\nbreaks are no token either",
    "a=b; c=d",
    f"the value of {TOKEN} goes here",
    f"{TOKEN}.1\tonly-the-second-part\t.perplexity.ai",
    "{}",
    "[]",
    "[1, 2]",
    "{broken",
    '{"session_token": 5}',
    '{"session_token": ""}',
    json.dumps({TOKEN: "short"}),
    json.dumps({TOKEN: None}),
    json.dumps({f"{TOKEN}.1": "only the second part"}),
    json.dumps({f"{TOKEN}.0": "first-first-first", f"{TOKEN}.2": "third"}),
    "ключ-без-латиницы-совсем",
    "x" * (LONGEST_IMPORT + 1),
]


@pytest.mark.parametrize("pasted", NONE_IN_IT, ids=lambda text: text[:30])
def test_it_refuses_what_holds_no_session(pasted: str) -> None:
    with pytest.raises(NotASession):
        import_jar(pasted)


@pytest.mark.parametrize(
    "pasted", ["my-secret-value wrong", '{"my-secret-value": "wrong"}', "my-secret-value=1; x=y"]
)
def test_it_repeats_nothing_of_what_was_pasted(pasted: str) -> None:
    with pytest.raises(NotASession) as caught:
        import_jar(pasted)
    assert "my-secret-value" not in str(caught.value)


@given(st.text(max_size=80))
def test_it_imports_any_text_or_refuses_it(pasted: str) -> None:
    try:
        jar = import_jar(pasted)
    except NotASession:
        return
    assert token_of(jar)
    assert import_jar(cookie_header(jar)) == jar


def test_it_joins_the_parts_of_a_token_in_their_order() -> None:
    jar = {f"{TOKEN}.{number}": f"-{number}-" for number in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9)}

    assert token_of(jar) == "".join(f"-{number}-" for number in range(11))


def test_it_prefers_the_plain_token() -> None:
    assert token_of({TOKEN: "plain", f"{TOKEN}.0": "part"}) == "plain"


def test_it_writes_the_cookie_header() -> None:
    assert cookie_header({TOKEN: "t", "__cf_bm": "b"}) == f"{TOKEN}=t; __cf_bm=b"


MERGES: dict[str, tuple[dict[str, str], list[str], dict[str, str]]] = {
    "a new value wins": (
        {TOKEN: "old", "cf": "1"},
        [f"{TOKEN}=new; Path=/; Expires=Wed, 30 Dec 2026 00:00:00 GMT; Secure; HttpOnly"],
        {TOKEN: "new", "cf": "1"},
    ),
    "other cookies come along": ({TOKEN: "old"}, ["AWSALB=x; Path=/"], {TOKEN: "old", "AWSALB": "x"}),
    "nothing came": ({TOKEN: "old"}, [], {TOKEN: "old"}),
    "the plain token drops the parts": (
        {f"{TOKEN}.0": "a", f"{TOKEN}.1": "b", "cf": "1"},
        [f"{TOKEN}=new"],
        {TOKEN: "new", "cf": "1"},
    ),
    "parts drop the plain token": (
        {TOKEN: "old"},
        [f"{TOKEN}.0=a", f"{TOKEN}.1=b"],
        {f"{TOKEN}.0": "a", f"{TOKEN}.1": "b"},
    ),
    "fewer parts drop the old ones": (
        {f"{TOKEN}.0": "a", f"{TOKEN}.1": "b", f"{TOKEN}.2": "c"},
        [f"{TOKEN}.0=d", f"{TOKEN}.1=e"],
        {f"{TOKEN}.0": "d", f"{TOKEN}.1": "e"},
    ),
    "a deleted cookie": ({TOKEN: "old", "cf": "1"}, ["cf=; Path=/"], {TOKEN: "old"}),
    "a cookie of no age": ({TOKEN: "old", "cf": "1"}, ["cf=x; Max-Age=0"], {TOKEN: "old"}),
    "a cookie of 1970": (
        {TOKEN: "old", "cf": "1"},
        ["cf=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
        {TOKEN: "old"},
    ),
    "a long age": ({}, ["cf=x; Max-Age=3600"], {"cf": "x"}),
    "parts that replace a deleted token": (
        {TOKEN: "old"},
        [f"{TOKEN}=; Max-Age=0", f"{TOKEN}.0=a"],
        {f"{TOKEN}.0": "a"},
    ),
    "lines that are no cookies": (
        {TOKEN: "old"},
        ["", "novalue", "=x", "b c=d", "e=\x01", 'f="q"'],
        {TOKEN: "old", "f": "q"},
    ),
}


@pytest.mark.parametrize(("jar", "lines", "merged"), MERGES.values(), ids=MERGES)
def test_it_merges_the_cookies_of_an_answer(
    jar: dict[str, str], lines: list[str], merged: dict[str, str]
) -> None:
    before = dict(jar)

    assert merge(jar, lines) == merged
    assert jar == before


def session(user: Any) -> bytes:
    return json.dumps({"user": user, "expires": "2026-12-30T00:00:00.000Z"}).encode()


def person(**members: Any) -> dict[str, Any]:
    return {"id": "u-1", "email": "a@example.org"} | members


TIERS: list[tuple[dict[str, Any], Tier | None]] = [
    ({"subscription_tier": "pro", "subscription_status": "active"}, "pro"),
    ({"subscription_tier": "max", "subscription_status": "trialing"}, "max"),
    ({"subscription_tier": "Max"}, "max"),
    ({"subscription_tier": "free", "subscription_status": "none"}, "free"),
    ({"subscription_tier": "pro", "subscription_status": "none"}, "free"),
    ({"subscription_tier": "unknown", "payment_tier": "max"}, "max"),
    ({"payment_tier": "free"}, "free"),
    ({"payment_tier": "paid"}, None),
    ({"subscription_tier": 5}, None),
    ({}, None),
]


@pytest.mark.parametrize(("members", "tier"), TIERS)
def test_it_reads_who_is_signed_in(members: dict[str, Any], tier: Tier | None) -> None:
    found = read_session(200, JSON, session(person(**members)))

    assert found == SignedIn("u-1", "a@example.org", tier)


SESSIONS: list[tuple[int, dict[str, str], bytes, FaultKind]] = [
    (200, JSON, b"{}", FaultKind.SIGNED_OUT),
    (200, JSON, session(None), FaultKind.SIGNED_OUT),
    (200, JSON, session({}), FaultKind.SIGNED_OUT),
    (200, JSON, b"null", FaultKind.BROKEN),
    (200, JSON, b"[]", FaultKind.BROKEN),
    (200, JSON, b"", FaultKind.BROKEN),
    (200, {"content-type": "text/html"}, b"<html>", FaultKind.BLOCKED),
    (401, JSON, b"{}", FaultKind.SIGNED_OUT),
    (403, {"content-type": "text/html"}, b"<html>", FaultKind.BLOCKED),
    (403, JSON, b"{}", FaultKind.FORBIDDEN),
    (429, JSON, b"{}", FaultKind.RATE_LIMITED),
    (502, JSON, b"{}", FaultKind.UNAVAILABLE),
]


@pytest.mark.parametrize(("status", "headers", "body", "kind"), SESSIONS)
def test_it_believes_the_user_and_never_the_status(
    status: int, headers: dict[str, str], body: bytes, kind: FaultKind
) -> None:
    found = read_session(status, headers, body)

    assert isinstance(found, Fault)
    assert found.kind is kind


def test_it_takes_any_user_for_a_session() -> None:
    assert read_session(200, JSON, session({"name": "x"})) == SignedIn("", "", None)


COUNTERS: list[tuple[Any, Quota | None]] = [
    ({"remaining_pro": 187, "remaining_research": 12, "remaining_labs": 20}, Quota(187, 12)),
    ({"remaining_pro": 0, "remaining_research": 0}, Quota(0, 0)),
    *(({"remaining_pro": wrong, "remaining_research": 1}, None) for wrong in (True, "5", -1, 1.5, None)),
    ({"remaining_pro": 5}, None),
    ([], None),
    ("x", None),
]


@pytest.mark.parametrize(("value", "quota"), COUNTERS, ids=str)
def test_it_reads_the_counters(value: Any, quota: Quota | None) -> None:
    assert read_quota(json.dumps(value)) == quota


def test_it_asks_flaresolverr_with_the_cookies() -> None:
    assert solver_request("https://w.example/x", {TOKEN: "t"}, ".w.example") == {
        "cmd": "request.get",
        "url": "https://w.example/x",
        "maxTimeout": 20000,
        "cookies": [
            {
                "name": TOKEN,
                "value": "t",
                "domain": ".w.example",
                "path": "/",
                "secure": True,
                "httpOnly": True,
            }
        ],
    }


def solved(response: str, **members: Any) -> bytes:
    solution = {"url": "x", "status": 200, "headers": {}, "response": response, "cookies": []}
    return json.dumps(
        {"status": "ok", "message": "Challenge solved!", "solution": solution} | members
    ).encode()


COUNTERS_SHOWN = "{&quot;remaining_pro&quot;: 3, &quot;remaining_research&quot;: 4}"
PAGE = f'<html><body><pre style="x">{COUNTERS_SHOWN}</pre></body></html>'


def test_it_reads_the_page_that_a_browser_makes_of_json() -> None:
    assert read_solved(solved(PAGE)) == Quota(3, 4)
    assert read_solved(solved('{"remaining_pro": 3, "remaining_research": 4}')) == Quota(3, 4)


FAILED: list[tuple[bytes, str]] = [
    (
        solved("<html><title>Just a moment...</title>"),
        "The page that FlareSolverr fetched shows no counters.",
    ),
    (solved("<pre>{}</pre>"), "The page that FlareSolverr fetched shows no counters."),
    (
        solved(PAGE, status="error", message="Error: Timeout after 20.0 seconds."),
        "Error: Timeout after 20.0 seconds.",
    ),
    (solved(PAGE, solution={"status": 403, "response": PAGE}), "Challenge solved!"),
    (solved(PAGE, solution=None), "Challenge solved!"),
    (b"nonsense", "FlareSolverr gave no page."),
]


@pytest.mark.parametrize(("body", "reason"), FAILED)
def test_it_leaves_the_counters_alone_when_there_is_no_page(body: bytes, reason: str) -> None:
    assert read_solved(body) == SolverFailed(reason)
