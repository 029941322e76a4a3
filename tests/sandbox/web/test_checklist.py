"""The simulator's requirements, line by line (perplexity-web §17); the details have tests of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.sandbox.web.listener import (
    ASK,
    PARAMS,
    Answer,
    WebVisitor,
    blocks,
    body,
    cookie,
    is_challenge,
    placed,
    records,
)
from tests.sandbox.web.test_bridge import document

QUESTION = "How do tides work?"
UUID = "00000000-0000-4000-8000-000000000000"
ROWS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/api/auth/session", None),
    ("POST", ASK, body(QUESTION)),
    ("GET", "/rest/rate-limit/all", None),
    ("POST", "/rest/uploads/create_upload_url?version=2.18&source=default", {}),
    ("POST", "/_storage/s3/", {}),
    ("POST", "/_storage/v1_1/sandbox/image/upload", {}),
    ("POST", "/rest/sse/attachment_processing/subscribe", {"file_uuids": [UUID]}),
    ("POST", "/rest/uploads/batch_create_upload_urls?version=2.18&source=default", {}),
    ("POST", f"{ASK}/reconnect/{UUID}", {}),
    ("POST", "/rest/sse/perplexity_terminate", {"entry_uuid": UUID}),
    ("DELETE", "/rest/thread/delete_thread_by_entry_uuid", {"entry_uuid": UUID}),
    ("GET", "/rest/rate-limit/status", None),
    ("GET", "/rest/models/config?config_schema=v1&version=2.18&source=default", None),
    ("GET", "/search/new?q=tides", None),
    ("POST", "/v1", {}),
    ("GET", "/", None),
    ("GET", "/health", None),
    ("POST", "/ntfy/topic", {}),
)


# 1. One ASGI app.


@pytest.mark.parametrize(("method", "path", "sent"), ROWS)
async def test_it_serves_every_row_of_the_endpoint_list_from_one_application(
    web: WebVisitor, method: str, path: str, sent: Any
) -> None:
    answer = await web.send(method, path, json=sent)
    assert answer.status_code not in (404, 405)
    assert not any(name.startswith("x-ratelimit") for name in answer.headers)
    assert (await web.control(f"/web/requests?path={path.partition('?')[0]}"))["requests"][0][
        "method"
    ] == method


# 2. Sessions.


async def test_it_tells_sessions_by_their_tokens(web: WebVisitor) -> None:
    assert (await web.as_("sandbox-pro-a").session()).json()["user"]["subscription_tier"] == "pro"
    expired = await web.as_("sandbox-expired-a").session()
    assert (expired.status_code, expired.json()) == (200, {})
    blocked = await web.as_("sandbox-blocked-a").session()
    assert blocked.status_code == 403
    assert is_challenge(blocked)


async def test_it_refuses_the_value_before_the_previous_one(web: WebVisitor) -> None:
    values = [f"sandbox-rotating-a{serial}" for serial in ("", ".1", ".2")]
    for value in values:
        assert (await web.as_(value).session()).json()["user"]
    assert [bool((await web.as_(value).ask(QUESTION)).records) for value in values] == [False, False, True]


# 3. Threads.


async def test_it_answers_a_follow_up_from_memory_and_records_every_body(web: WebVisitor) -> None:
    first = await web.ask(QUESTION)
    second = await web.ask("And the Moon? [sandbox:recall]", last_backend_uuid=first.entry)
    assert "1. How do tides work?" in second.text
    found = (await web.control(f"/web/requests?path={ASK}"))["requests"]
    assert [json.loads(line["body"])["params"]["last_backend_uuid"] for line in found] == [first.entry, None]
    assert found[0]["headers"]["cookie"].endswith(web.token)
    assert found[0]["account"] == web.token
    await web.ask(QUESTION, version="1.0")
    assert (await web.control(f"/web/requests?path={ASK}"))["requests"][0]["status"] == 400


# 4. Scenarios by a marker.


def usages(answer: Answer) -> set[str]:
    return {block["intended_usage"] for frame in answer.frames for block in frame["blocks"]}


Check = Callable[[Answer], object]
SONNET = {"model_preference": "claude50sonnet"}
RESEARCH = {"model_preference": "pplx_alpha", "send_back_text_in_streaming_api": True}
SCENARIOS: dict[str, tuple[str, dict[str, Any], Check]] = {
    "normal": ("", {}, lambda a: a.ended and a.text and a.last["status"] == "COMPLETED"),
    "slow": (
        "[sandbox:pieces=5] [sandbox:duration=0]",
        {},
        lambda a: a.response.text.count('"ask_text",') == 6,
    ),
    "thinking": ("[sandbox:thinking]", SONNET, lambda a: {"plan", "pro_search_steps"} <= usages(a)),
    "research": (
        "",
        RESEARCH,
        lambda a: "RESEARCH_ANSWER" in a.last["text"] and "pct_complete" in a.response.text,
    ),
    "mirrored tracks": (
        "[sandbox:mirror]",
        SONNET,
        lambda a: placed(a.frames, "ask_text_0_markdown") == a.text,
    ),
    "diff mode": ("[sandbox:shape=patches]", {}, lambda a: '"diff_block"' in a.response.text),
    "workflow mode": ("[sandbox:shape=workflow]", {}, lambda a: "ask_text" not in usages(a) and a.text),
    "substitute": ("[sandbox:substitute]", SONNET, lambda a: a.last["display_model"] == "gpt5_nano"),
    "aux-tail": (
        "[sandbox:aux-tail]",
        SONNET,
        lambda a: a.frames[-4]["display_model"] != a.last["display_model"],
    ),
    "no-model": ("[sandbox:no-model]", {}, lambda a: "display_model" not in a.response.text),
    "upsell": (
        "[sandbox:upsell]",
        {},
        lambda a: a.ended and "upsell_information" in a.frames[0] and not a.text,
    ),
    "authwall": ("[sandbox:authwall]", {}, lambda a: a.last["upsell_information"]["upsell_type"] == "LOGIN"),
    "failed": (
        "[sandbox:failed-silent]",
        {},
        lambda a: a.last["status"] == "FAILED" and a.last["text"] == "[]",
    ),
    "error-event": ("[sandbox:error-stream=3]", {}, lambda a: a.records[-1].event == "error"),
    "error frame": ("[sandbox:error-frame]", {}, lambda a: a.last["error"] == "boom"),
    "error code": ("[sandbox:error-code]", {}, lambda a: "RATE_LIMIT" in a.last["error_code"]),
    "broken-json": ("[sandbox:broken-json]", {}, lambda a: a.records[3].data == "{broken"),
    "array": ("[sandbox:array-frame]", {}, lambda a: isinstance(a.frames[3], list)),
    "cut": ("[sandbox:end-stream=5]", {}, lambda a: len(a.records) == 5 and not a.ended),
    "empty": ("[sandbox:empty]", {}, lambda a: a.ended and a.last["status"] == "COMPLETED" and not a.text),
    "rewrite": ("[sandbox:rewrite]", {}, lambda a: placed(a.frames[:-1])[:30] not in a.text),
    "retraction": ("[sandbox:retract]", {}, lambda a: "simulated" in a.response.text and not a.text),
    "http-400": ("[sandbox:invalid]", {}, lambda a: a.response.status_code == 400),
    "http-401": ("[sandbox:unauthorized]", {}, lambda a: a.response.status_code == 401),
    "http-403json": ("[sandbox:forbidden]", {}, lambda a: a.response.json() == {}),
    "http-403html": ("[sandbox:challenge]", {}, lambda a: is_challenge(a.response)),
    "http-200html": ("[sandbox:challenge-ok]", {}, lambda a: is_challenge(a.response)),
    "http-429": (
        "[sandbox:rate-limit] [sandbox:retry-after=3]",
        {},
        lambda a: a.response.status_code == 429 and a.response.headers["retry-after"] == "3",
    ),
    "http-500": ("[sandbox:server-error]", {}, lambda a: a.response.status_code == 500),
    "huge": ("[sandbox:terminal-kib]", {}, lambda a: len(a.records[-2].data) >= 1 << 20),
    "LF framing": ("[sandbox:framing=lf]", {}, lambda a: "\r" not in a.response.text and a.ended),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_it_plays_every_scenario_by_a_marker(web: WebVisitor, scenario: str) -> None:
    marker, params, check = SCENARIOS[scenario]
    answer = await web.ask(f"{QUESTION} {marker}", **params)
    assert check(answer), answer.response.text[:2000]


def test_it_plays_a_silence_with_heartbeats_only(client: httpx.Client) -> None:
    question = f"{QUESTION} [sandbox:idle-stream=2] [sandbox:heartbeat=0.05]"
    with client.stream("POST", ASK, json=body(question), headers=cookie("sandbox-pro")) as answer:
        text = ""
        for piece in answer.iter_text():
            text += piece
            if text.count(": heartbeat") == 5:
                break
    assert len(records(text)) == 2


def test_it_splits_a_character(client: httpx.Client) -> None:
    halves = []
    question = f"{QUESTION} [sandbox:split-utf8]"
    with client.stream("POST", ASK, json=body(question), headers=cookie("sandbox-pro")) as answer:
        for piece in answer.iter_raw():
            try:
                piece.decode()
            except UnicodeDecodeError:
                halves.append(piece)
    assert len(halves) > 3


async def test_it_keeps_scenarios_apart_that_run_at_once(web: WebVisitor) -> None:
    failed, fine = await web.ask(f"{QUESTION} [sandbox:failed]"), await web.ask(QUESTION)
    assert (failed.last["status"], fine.last["status"]) == ("FAILED", "COMPLETED")


# 5. Functions in the prompt.


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("call", '"calls": [{"name": "get_weather"'),
        ("two", '"name": "stock"'),
        ("message", '"type": "message"'),
        ("prose", "I will now call"),
        ("fenced", "```json"),
        ("wrong", "no_such_argument"),
        ("unknown", "no_such_function"),
    ],
)
async def test_it_answers_a_prompt_with_functions(web: WebVisitor, manner: str, words: str) -> None:
    assert words in (await web.ask(document(f"Weather? [sandbox:bridge={manner}]"))).text


# 6. Quota.


async def test_it_counts_copilot_and_research_down(web: WebVisitor) -> None:
    before = await web.quota()
    for preference in ("gpt55", "claude50sonnetthinking", "pplx_alpha", "pplx_pro"):
        await web.ask(QUESTION, model_preference=preference)
    after = await web.quota()
    assert before["remaining_pro"] - after["remaining_pro"] == 2
    assert before["remaining_research"] - after["remaining_research"] == 1


# 7. Models.


async def test_it_knows_no_other_preferences_and_substitutes_as_told(web: WebVisitor) -> None:
    assert (await web.ask(QUESTION, model_preference="gpt99_luna")).response.status_code == 400
    await web.control("/web/account", account=web.token, substitutes={"gpt55": "gpt5_mini"})
    answer = await web.ask(QUESTION, model_preference="gpt55")
    assert (answer.last["display_model"], answer.last["user_selected_model"]) == ("gpt5_mini", "gpt55")


# 8. Regressions show.


@pytest.mark.parametrize(
    "change",
    [
        {"search_focus": None},
        {"version": None},
        {"version": "2.17"},
        {"model_preference": None},
    ],
    ids=str,
)
async def test_it_refuses_a_body_that_shows_a_regression(web: WebVisitor, change: dict[str, Any]) -> None:
    params = {name: value for name, value in {**PARAMS, **change}.items() if value is not None}
    answer = await web.send("POST", ASK, json={"query_str": QUESTION, "params": params})
    assert answer.status_code == 400


async def test_it_still_shows_the_sources_block_under_the_list_of_the_seed(web: WebVisitor) -> None:
    assert blocks((await web.ask(QUESTION)).last, "web_results")
