"""Every marker of the web, shown to do what its sentence says; one without a test fails the first test."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.markers import Api
from sandbox.scenarios import MARKERS, PREFIXES, read_script
from sandbox.web.faults import WEB_FAULTS
from tests.sandbox.web.listener import (
    Answer,
    WebVisitor,
    blocks,
    placed,
    said,
    step_answer,
)
from tests.sandbox.web.test_faults import BROKEN, WIRE

Check = Callable[[Answer], object]
PLAIN = "How do tides work?"
RESEARCH = {"model_preference": "pplx_alpha", "send_back_text_in_streaming_api": True}
THOUGHT = re.compile(r"<think>.*?</think>", re.S)


def test_it_has_a_test_for_every_marker_of_the_web() -> None:
    faults = {prefix + fault for prefix in PREFIXES.values() for fault in (*WIRE, *BROKEN)}
    of_the_web = {name for name, marker in MARKERS.items() if "web" in marker.apis}
    assert set(WEB_FAULTS) == {*WIRE, *BROKEN}
    assert of_the_web == faults | set(ANSWERS) | ELSEWHERE


@pytest.mark.parametrize(
    "marker",
    ["shape=round", "pieces=0", "pieces=x", "say=%25", "say=", "framing=crlf", "forget=500", "web.think=1",
     "web.cost=1", "agent.shape=text", "sonar.upsell", "dribble=0"],
)  # fmt: skip
async def test_it_refuses_a_marker_of_the_web_that_it_cannot_read(web: WebVisitor, marker: str) -> None:
    answer = await web.ask(f"Why? [sandbox:{marker}]")
    assert answer.response.status_code == 400
    assert "sandbox" in answer.response.text


@pytest.mark.parametrize(("api", "struck"), [("web", True), ("agent", False), ("sonar", False)])
def test_it_binds_a_marker_to_the_web_alone(api: Api, struck: bool) -> None:
    script = read_script("Why? [sandbox:web.rate-limit] [sandbox:web.failed]", api)
    assert (script.fault("submit", 1) == "rate-limit", "failed" in script) == (struck, struck)


# What an answer becomes: the value of the marker, the request, and a check of the answer.


def parts(answer: Answer) -> list[str]:
    """The pieces of the first track, in the order in which they came."""
    found: list[str] = []
    for frame in answer.frames[:-1]:
        for block in blocks(frame, "ask_text"):
            found += block["markdown_block"]["chunks"]
    return found


def steps(answer: Answer) -> list[dict[str, Any]]:
    return list(json.loads(answer.last["text"]))


def urls(answer: Answer) -> list[str]:
    found = blocks(answer.last, "web_results")
    return [result["url"] for block in found for result in block["web_result_block"]["web_results"]]


def usages(answer: Answer) -> set[str]:
    return {block["intended_usage"] for frame in answer.frames for block in frame.get("blocks", ())}


def report_in_text(answer: Answer) -> bool:
    return (
        any(step["step_type"] == "RESEARCH_ANSWER" for step in steps(answer))
        if "text" in answer.last
        else False
    )


def offsets(answer: Answer) -> list[int]:
    found = [blocks(frame, "ask_text") for frame in answer.frames[:-1]]
    return [block["markdown_block"]["chunk_starting_offset"] for track in found for block in track]


def models(answer: Answer) -> list[str | None]:
    return [frame.get("display_model") for frame in answer.frames]


def stopped(answer: Answer) -> bool:
    return answer.last["status"] == "COMPLETED" and answer.last["text_completed"] is False


def refused(answer: Answer) -> Any:
    return answer.frames[0].get("upsell_information") or answer.last.get("upsell_information")


OTHER = "ask_text_0_markdown"
SONNET = {"model_preference": "claude50sonnet"}
ANSWERS: dict[str, tuple[str, dict[str, Any], Check]] = {
    "shape": ("=workflow", {}, lambda a: blocks(a.last, "workflow_root") and not blocks(a.last, "ask_text")),
    "text-form": (
        "=plain",
        {"send_back_text_in_streaming_api": True},
        lambda a: a.last["text"].startswith("**This is a simulated answer.**"),
    ),
    "last-text": ("", {}, lambda a: step_answer(a.last["text"]) == a.text if "text" in a.last else False),
    "mirror": (
        "",
        SONNET,
        lambda a: placed(a.frames) == placed(a.frames, "ask_text_0_markdown") == a.text,
    ),
    "mirror-only": ("", SONNET, lambda a: "ask_text" not in usages(a) and placed(a.frames, OTHER)),
    "track-switch": (
        "",
        SONNET,
        lambda a: 0 < len(placed(a.frames[:-1], OTHER)) < len(a.text) == len(placed(a.frames)),
    ),
    "pieces": ("=3", {}, lambda a: len(parts(a)) == 3 and "".join(parts(a)) == a.text),
    "resend-chunks": (
        "",
        SONNET,
        lambda a: (
            len("".join(parts(a))) > len(a.text)
            and placed(a.frames[:-1]) == a.text
            and offsets(a)[:3] == [0, 0, 1]
        ),
    ),
    "framing": ("=lf", {}, lambda a: b"\r" not in a.response.content),
    "terminal-kib": ("", {}, lambda a: len(a.records[-2].data.encode()) >= 1024 * 1024),
    "endless-line": ("", {}, lambda a: len(a.response.content) > 60 * 1024 * 1024),
    "say": ("=SGFsbG8sIFdlbHQhIFsxXQ", {}, lambda a: a.text == "Hallo, Welt! [1]"),
    "recall": ("", {}, lambda a: a.text == "Nothing was asked before in this thread."),
    "bridge": ("=prose", {"bridge": True}, lambda a: a.text == "I will now call lookup for you."),
    "thinking": ("", SONNET, lambda a: "plan" in usages(a) and "THOUGHT" in json.dumps(a.frames)),
    "legacy-sources": ("", {}, lambda a: len(a.last.get("web_results", ())) == 4 and "plan" in a.last),
    "report-in": ("=assets", RESEARCH, lambda a: not report_in_text(a) and blocks(a.last, "unified_assets")),
    "substitute": (
        "=gpt5_mini",
        SONNET,
        lambda a: set(models(a)) == {"gpt5_mini"} and a.last["user_selected_model"] == "claude50sonnet",
    ),
    "switch": ("", SONNET, lambda a: models(a)[0] == "claude50sonnet" and models(a)[-1] == "gpt5_nano"),
    "aux-tail": (
        "",
        SONNET,
        lambda a: (
            models(a)[-4:] == ["claude50sonnet", *["gpt5_nano"] * 3]
            and len(parts(a)[-1]) <= min(16, len(a.text) * 0.05)
        ),
    ),
    "no-model": ("", {}, lambda a: not any("display_model" in frame for frame in a.frames)),
    "no-token": ("", {}, lambda a: not any("read_write_token" in frame for frame in a.frames)),
    "upsell": (
        "",
        {},
        lambda a: (
            refused(a)
            and refused(a)["name"] == "advanced_models_quota_low"
            and "UPGRADE" in refused(a)["upsell_type"]
            and a.last["status"] == "COMPLETED"
            and a.last["final_sse_message"]
            and a.ended
            and not a.text
        ),
    ),
    "authwall": (
        "",
        {},
        lambda a: (
            refused(a)
            and refused(a)["upsell_type"] == "LOGIN"
            and a.last["status"] == "COMPLETED"
            and a.text.startswith("Sign up")
            and a.ended
        ),
    ),
    "error-frame": ("", {}, lambda a: a.last.get("error") == "boom" and a.ended),
    "error-code": ("", {}, lambda a: a.last.get("error_code") == "RATE_LIMIT_EXCEEDED" and a.last["text"]),
    "broken-json": ("=2", {}, lambda a: a.records[2].data == "{broken" and len(a.records) > 5),
    "array-frame": ("=2", {}, lambda a: isinstance(json.loads(a.records[2].data), list)),
    "end-stream": ("=4", {}, lambda a: len(a.records) == 4 and not a.ended),
    "no-end": ("", {}, lambda a: a.last["final_sse_message"] and not a.ended),
    "no-completed": ("", {}, lambda a: a.ended and a.last["status"] == "PENDING" and placed(a.frames)),
    "rewrite": ("", {}, lambda a: a.text and not a.text.startswith(placed(a.frames[:-1])[:20])),
    "renumber": (
        "",
        {},
        lambda a: a.text != placed(a.frames[:-1]) and unmarked(a.text) == unmarked(placed(a.frames[:-1])),
    ),
    "retract": ("", {}, lambda a: parts(a) and a.text == "" and a.last["status"] == "COMPLETED"),
    "stopped": (
        "",
        {},
        lambda a: stopped(a) and placed(a.frames) and a.ended,
    ),
    # Shared with the paid APIs.
    "failed": ("", {}, lambda a: a.last["status"] == "FAILED" and a.last["error_message"]),
    "failed-silent": ("", {}, lambda a: a.last["status"] == "FAILED" and "error_message" not in a.last),
    "empty": ("", {}, lambda a: a.last["status"] == "COMPLETED" and a.ended and not a.text and not parts(a)),
    "huge": ("=300", {}, lambda a: len(a.text.encode()) == 300 * 1024),
    "think": ("", {}, lambda a: len(THOUGHT.findall(a.text)) == 1),
    "think-two": ("", {}, lambda a: len(THOUGHT.findall(a.text)) == 2),
    "think-unclosed": ("", {}, lambda a: "<think>" in a.text and "</think>" not in a.text),
    "right-to-left": ("", {}, lambda a: "تقرير تجريبي" in a.text),
    "hostile": ("", {}, lambda a: "<script>" in a.text and "](javascript:" in a.text),
    "no-sources": ("", {}, lambda a: urls(a) == [] and not re.search(r"\[\d", a.text)),
    "no-sources-links": ("", {}, lambda a: urls(a) == [] and a.text.count("\n- https://example.") == 8),
    "sources-bare": ("", {}, lambda a: '"snippet":"","timestamp":null' in a.records[-2].data),
    "hostile-sources": ("", {}, lambda a: urls(a)[0].startswith("javascript:")),
    "marks-range": ("", {}, lambda a: {"[0]", "[14]"} <= set(re.findall(r"\[\d+\]", a.text))),
    "marks-groups": ("", {}, lambda a: "[1,2]" in a.text and "[1-3]" in a.text),
    "marks-code": ("", {}, lambda a: "`array[1]`" in a.text),
    "marks-web": ("", {}, lambda a: "[web:3]" in a.text and "[3]" not in a.text),
    "marks-links": ("", {}, lambda a: f"([source]({urls(a)[0]}))" in a.text),
    "urls-odd": ("", {}, lambda a: "Probe_(instrument)" in urls(a)[0]),
}  # fmt: skip
# Shown by tests of their own, most of them on a real socket.
ELSEWHERE = {
    "duration", "expire", "slow", "poll-slow", "cancel-slow", "retry-after", "stuck", "cancel-ignored",
    "cancel-refused", "cut-stream", "idle-stream", "error-stream", "no-resume", "heartbeat", "dribble",
    "split-utf8", "first-frame", "clarify", "forget", "processing", "upload",
}  # fmt: skip
BRIDGE = json.dumps(
    {
        "instructions": [
            'Functions: [{"name": "lookup", "parameters": {"type": "object", "properties": {}}}]'
        ],
        "input": [{"role": "user", "content": "%s"}],
    }
)


def unmarked(text: str) -> str:
    return re.sub(r"\[\d+\]", "", text)


def asked(marker: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    question = f"{PLAIN} {marker}"
    if "bridge" in params:
        return BRIDGE % question, {name: value for name, value in params.items() if name != "bridge"}
    return question, params


@pytest.mark.parametrize("marker", ANSWERS)
async def test_it_bends_an_answer_as_the_marker_says(web: WebVisitor, marker: str) -> None:
    value, params, check = ANSWERS[marker]
    question, more = asked(f"[sandbox:{marker}{value}]", params)
    answer = await web.ask(question, **more)
    assert answer.response.status_code == 200
    assert check(answer), answer.response.text[:3000]


@pytest.mark.parametrize("marker", [name for name in ANSWERS if name != "recall"])
async def test_it_does_none_of_it_to_an_answer_without_the_marker(web: WebVisitor, marker: str) -> None:
    _, params, check = ANSWERS[marker]
    question, more = asked("", params)
    assert not check(await web.ask(question, **more))


@pytest.mark.parametrize(
    "text", ["\n", "a[1]b", "日本の港 🌊", "x" * 5000, '{"type":"message"}', "  edges  "]
)
async def test_it_says_exactly_what_it_was_told_to(web: WebVisitor, text: str) -> None:
    answer = await web.ask(said(text))
    assert answer.text == placed(answer.frames[:-1]) == text


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("string", lambda text: json.loads(text)[-1]["content"]["answer"]),
        ("object", lambda text: json.loads(text)["answer"]),
        ("plain", lambda text: text),
    ],
)
async def test_it_has_three_older_forms_of_the_text(
    web: WebVisitor, form: str, read: Callable[[str], str]
) -> None:
    answer = await web.ask(f"{said('Ebb and flow.')} [sandbox:shape=text] [sandbox:text-form={form}]")
    assert read(answer.last["text"]) == "Ebb and flow."


@pytest.mark.parametrize(
    ("where", "in_text", "in_assets"),
    [("text", True, False), ("assets", False, True), ("both", True, True), ("none", False, False)],
)
async def test_it_puts_the_report_where_the_marker_says(
    web: WebVisitor, where: str, in_text: bool, in_assets: bool
) -> None:
    answer = await web.ask(f"{PLAIN} [sandbox:report-in={where}]", **RESEARCH)
    assert (report_in_text(answer), bool(blocks(answer.last, "unified_assets"))) == (in_text, in_assets)
