"""Every marker of the table, shown to do what its sentence says; one without a test fails the first test."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import pytest

from sandbox.markers import WEB
from sandbox.scenarios import MARKERS, PREFIXES
from tests.sandbox.test_faults import BROKEN, WIRE
from tests.sandbox.visitor import Visitor, agent_results, agent_text, sonar_message

Response = dict[str, Any]
Check = Callable[[Response], object]


def test_it_has_a_test_for_every_marker() -> None:
    faults = {prefix + fault for prefix in PREFIXES.values() for fault in (*WIRE, *BROKEN)}
    shown = {*AGENT, *SONAR, *ELSEWHERE}
    of_the_paid = {name for name, marker in MARKERS.items() if marker.apis != WEB}
    assert of_the_paid == faults | shown


@pytest.mark.parametrize(
    "marker",
    ["nonsense", "cost", "cost=much", "cost=1e3", "cost=-1", "duration=", "duration=soon", "failed=yes",
     "rate-limit=some", "poll-slow=nan", "huge=big"],
)  # fmt: skip
async def test_it_refuses_a_marker_that_it_cannot_read(visitor: Visitor, marker: str) -> None:
    for answer in (
        await visitor.submit_agent(f"[sandbox:{marker}]"),
        await visitor.submit_sonar(f"[sandbox:{marker}]"),
    ):
        assert answer.status_code == 400
        assert "sandbox" in answer.json()["error"]["message"]


async def test_it_leaves_text_alone_that_only_looks_like_a_marker(visitor: Visitor) -> None:
    assert (await visitor.submit_agent("[sandbox] [sandbox:] [SANDBOX:x] [ sandbox:x]")).status_code == 200


async def test_it_combines_markers(visitor: Visitor) -> None:
    response = await visitor.run_agent("Why? [sandbox:duration=1][sandbox:think] and [sandbox:cost=2]")
    assert agent_text(response).startswith("<think>")
    assert response["usage"]["cost"]["total_cost"] == 2


# How a run goes and what it finds: the response object at its end, and a check of it.

THOUGHT = re.compile(r"<think>.*?</think>", re.S)


def urls(response: Response) -> list[str]:
    return [entry["url"] for entry in agent_results(response)]


def message_shape(response: Response) -> list[int]:
    return [len(item["content"]) for item in response["output"] if item["type"] == "message"]


AGENT: dict[str, tuple[str, Check]] = {
    "failed": ("", lambda r: r["status"] == "failed" and r["error"]["message"] and not agent_text(r)),
    "failed-silent": ("", lambda r: r["status"] == "failed" and r["error"] is None),
    "incomplete": (
        "",
        lambda r: (
            r["status"] == "incomplete"
            and r["incomplete_details"] == {"reason": "max_output_tokens"}
            and 1000 < len(agent_text(r)) < 4000
        ),
    ),
    "incomplete-empty": ("", lambda r: r["status"] == "incomplete" and r["output"] == [] and r["usage"]),
    "upstream-cancelled": ("", lambda r: r["status"] == "cancelled" and r["error"]["code"] == "cancelled"),
    "stuck": ("", lambda r: r["status"] == "in_progress" and r["output"]),
    "stuck-queued": ("", lambda r: r["status"] == "queued"),
    "no-cost": ("", lambda r: "cost" not in r["usage"] and r["usage"]["total_tokens"]),
    "no-usage": ("", lambda r: r["status"] == "completed" and r["usage"] is None),
    "think": ("", lambda r: len(THOUGHT.findall(agent_text(r))) == 1),
    "think-two": ("", lambda r: len(THOUGHT.findall(agent_text(r))) == 2),
    "think-unclosed": ("", lambda r: "<think>" in agent_text(r) and "</think>" not in agent_text(r)),
    "content-null": ("", lambda r: message_shape(r) == [0]),
    "content-parts": ("", lambda r: message_shape(r) == [2, 1] and "simulated" in agent_text(r)),
    "empty": ("", lambda r: r["status"] == "completed" and agent_text(r) == ""),
    "odd-items": ("", lambda r: r["output"][0]["type"] == "unknown" and agent_text(r)),
    "huge": ("=300", lambda r: len(agent_text(r).encode()) == 300 * 1024),
    "right-to-left": ("", lambda r: "تقرير تجريبي" in agent_text(r) and "[8]" in agent_text(r)),
    "hostile": ("", lambda r: "<script>" in agent_text(r) and "](javascript:" in agent_text(r)),
    "no-sources": (
        "",
        lambda r: (
            urls(r) == []
            and not re.search(r"\[\d", agent_text(r))
            and r["usage"]["tool_calls_details"]["search_web"]["invocation"] == 8
        ),
    ),
    "no-sources-links": ("", lambda r: urls(r) == [] and agent_text(r).count("\n- https://example.") == 8),
    "sources-bare": (
        "",
        lambda r: (
            [entry.get("title") for entry in agent_results(r)] == [None, ""] * 4
            and not any("date" in entry for entry in agent_results(r))
        ),
    ),
    "no-snippet": ("", lambda r: not any("snippet" in entry for entry in agent_results(r))),
    "hostile-sources": ("", lambda r: "javascript:" in urls(r)[0] and "169.254.169.254" in urls(r)[4]),
    "marks-range": ("", lambda r: {"[0]", "[14]"} <= set(re.findall(r"\[\d+\]", agent_text(r)))),
    "marks-groups": ("", lambda r: "[1,2]" in agent_text(r) and "[1-3]" in agent_text(r)),
    "marks-code": ("", lambda r: "`array[1]`" in agent_text(r) and "[4](https://" in agent_text(r)),
    "marks-web": ("", lambda r: "[web:3]" in agent_text(r) and "[3]" not in agent_text(r)),
    "marks-links": (
        "",
        lambda r: f"([source]({urls(r)[0]}))" in agent_text(r) and "[1]" not in agent_text(r),
    ),
    "urls-odd": ("", lambda r: "Probe_(instrument)" in urls(r)[0] and f"({urls(r)[1]})" in agent_text(r)),
    "event-lines": ("", lambda r: r["status"] == "completed"),
}
SONAR: dict[str, Check] = {
    "failed": lambda j: (
        j["status"] == "FAILED" and j["error_message"] and j["failed_at"] and not j["response"]
    ),
    "failed-silent": lambda j: j["status"] == "FAILED" and j["error_message"] is None,
    "incomplete": lambda j: (
        j["status"] == "COMPLETED"
        and j["response"]["choices"][0]["finish_reason"] == "length"
        and len(sonar_message(j)) > 1000
    ),
    "incomplete-empty": lambda j: sonar_message(j) == "",
    "stuck": lambda j: j["status"] == "IN_PROGRESS" and j["response"] is None,
    "stuck-queued": lambda j: j["status"] == "CREATED" and j["started_at"] is None,
    "no-cost": lambda j: j["response"]["usage"]["cost"]["total_cost"] == 0,
    "no-usage": lambda j: j["response"]["usage"] is None,
    "think": lambda j: sonar_message(j).startswith("<think>") and "</think>" in sonar_message(j),
    "think-two": lambda j: len(THOUGHT.findall(sonar_message(j))) == 2,
    "think-unclosed": lambda j: "</think>" not in sonar_message(j) and "<think>" in sonar_message(j),
    "content-null": lambda j: j["status"] == "COMPLETED" and sonar_message(j) is None,
    "content-parts": lambda j: (
        isinstance(sonar_message(j), list) and [part["type"] for part in sonar_message(j)] == ["text", "text"]
    ),
    "empty": lambda j: j["status"] == "COMPLETED" and sonar_message(j) == "",
    "huge": lambda j: len(sonar_message(j).encode()) == 200 * 1024,
    "no-sources": lambda j: (
        j["response"]["citations"] == j["response"]["search_results"] == []
        and j["response"]["usage"]["num_search_queries"] == 8
        and not re.search(r"\[\d", sonar_message(j))
    ),
    "no-sources-links": lambda j: j["response"]["citations"] == [] and "- https://" in sonar_message(j),
    "citations-only": lambda j: (
        len(j["response"]["citations"]) == 8 and j["response"]["search_results"] == []
    ),
    "sources-bare": lambda j: (
        "title" not in j["response"]["search_results"][0] and "date" not in j["response"]["search_results"][1]
    ),
    "hostile-sources": lambda j: j["response"]["citations"][0].startswith("javascript:"),
    "urls-odd": lambda j: j["response"]["citations"][4].startswith("https://bücher.example/"),
    "poll-list": lambda j: "status" not in j and j["requests"],
}
# Shown by tests of their own, here or among the tests of streams.
ELSEWHERE = {
    "duration", "expire", "slow", "poll-slow", "cancel-slow", "retry-after", "unknown-status", "cancel-lag",
    "cancel-ignored", "cancel-refused", "text-early", "cost", "cut-stream", "idle-stream", "error-stream",
    "no-resume", "no-done",
}  # fmt: skip


@pytest.mark.parametrize("marker", AGENT)
async def test_it_bends_an_agent_run_as_the_marker_says(visitor: Visitor, marker: str) -> None:
    value, check = AGENT[marker]
    response = await visitor.run_agent(f"How do tides work? [sandbox:{marker}{value}]")
    assert check(response), json.dumps(response, ensure_ascii=False)[:3000]


@pytest.mark.parametrize("marker", SONAR)
async def test_it_bends_a_sonar_job_as_the_marker_says(visitor: Visitor, marker: str) -> None:
    job = await visitor.run_sonar(f"How do tides work? [sandbox:{marker}]")
    assert SONAR[marker](job), json.dumps(job, ensure_ascii=False)[:3000]


@pytest.mark.parametrize("marker", [*AGENT, *SONAR])
async def test_it_does_none_of_it_without_the_marker(visitor: Visitor, marker: str) -> None:
    if marker in AGENT and marker != "event-lines":
        assert not AGENT[marker][1](await visitor.run_agent("How do tides work?"))
    if marker in SONAR:
        assert not SONAR[marker](await visitor.run_sonar("How do tides work?"))


async def test_it_takes_as_long_as_the_marker_says(visitor: Visitor) -> None:
    run = await visitor.ask_agent("[sandbox:duration=0.5]")
    slow = await visitor.ask_sonar("[sandbox:duration=100]")
    visitor.clock.forward(0.6)
    assert (await visitor.fetch_agent(run))["status"] == "completed"
    visitor.clock.forward(99)
    assert (await visitor.fetch_sonar(slow))["status"] == "IN_PROGRESS"


async def test_it_forgets_a_run_when_the_marker_says(visitor: Visitor) -> None:
    run = await visitor.ask_agent("[sandbox:expire=5]")
    job = await visitor.ask_sonar("[sandbox:expire=5]")
    visitor.clock.forward(4)
    assert (await visitor.fetch_agent(run))["id"] == run
    visitor.clock.forward(2)
    assert (await visitor.client.get(f"/v1/agent/{run}")).status_code == 404
    assert (await visitor.client.get(f"/v1/async/sonar/{job}")).status_code == 404
    assert (await visitor.client.post(f"/v1/agent/{run}/cancel")).status_code == 400


@pytest.mark.parametrize(("value", "word"), [("", "polishing"), ("=requires_action", "requires_action")])
async def test_it_shows_an_unknown_word_while_it_works(visitor: Visitor, value: str, word: str) -> None:
    run = await visitor.ask_agent(f"[sandbox:unknown-status{value}]")
    job = await visitor.ask_sonar(f"[sandbox:unknown-status{value}]")
    visitor.clock.forward(5)
    assert (await visitor.fetch_agent(run))["status"] == word
    assert (await visitor.fetch_sonar(job))["status"] == word.upper()
    visitor.clock.forward(6)
    assert (await visitor.fetch_agent(run))["status"] == "completed"
    assert (await visitor.fetch_sonar(job))["status"] == "COMPLETED"


async def cancelled(visitor: Visitor, question: str, fetches: int) -> list[str]:
    """The states that fetches show after an accepted cancel, the run's time being over."""
    run = await visitor.ask_agent(question)
    visitor.clock.forward(5)
    assert (await visitor.client.post(f"/v1/agent/{run}/cancel")).status_code == 200
    visitor.clock.forward(6)
    return [(await visitor.fetch_agent(run))["status"] for _ in range(fetches)]


async def test_it_cancels_as_slowly_as_the_marker_says(visitor: Visitor) -> None:
    assert await cancelled(visitor, "[sandbox:cancel-lag=0]", 1) == ["cancelled"]
    assert await cancelled(visitor, "[sandbox:cancel-lag=4]", 5) == [*["in_progress"] * 4, "cancelled"]


async def test_it_completes_although_the_cancel_was_accepted(visitor: Visitor) -> None:
    assert await cancelled(visitor, "[sandbox:cancel-ignored]", 2) == ["completed", "completed"]


async def test_it_shows_the_text_so_far_and_keeps_it_when_it_is_cancelled(visitor: Visitor) -> None:
    run = await visitor.ask_agent("How do tides work? [sandbox:text-early]")
    visitor.clock.forward(4)
    early = agent_text(await visitor.fetch_agent(run))
    assert 500 < len(early) < 5000
    await visitor.client.post(f"/v1/agent/{run}/cancel")
    texts = [agent_text(await visitor.fetch_agent(run)) for _ in range(3)]
    assert texts == [early] * 3
    assert not agent_text(await visitor.fetch_agent(await visitor.ask_agent("How do tides work?")))


async def test_it_refuses_a_cancel_as_if_the_run_were_over(visitor: Visitor) -> None:
    run = await visitor.ask_agent("[sandbox:cancel-refused]")
    answer = await visitor.client.post(f"/v1/agent/{run}/cancel")
    assert answer.status_code == 400
    assert "already terminal" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "cost", ["0", "0.4", "0.1", "0.000000000000000000000000000001", "123456789.123456789012345678", "7"]
)
async def test_it_costs_what_the_marker_says_to_the_last_digit(visitor: Visitor, cost: str) -> None:
    question = f"[sandbox:cost={cost}]"
    run, job = await visitor.ask_agent(question), await visitor.ask_sonar(question)
    visitor.clock.forward(11)
    agent, sonar = [
        json.loads((await visitor.client.get(path)).text, parse_float=Decimal, parse_int=Decimal)
        for path in (f"/v1/agent/{run}", f"/v1/async/sonar/{job}")
    ]
    parts = agent["usage"]["cost"]
    assert f"{parts['total_cost']:f}" == cost
    with_parts = [parts[name] for name in ("input_cost", "output_cost", "tool_calls_cost")]
    assert exact_sum(with_parts) == Decimal(cost)
    parts = sonar["response"]["usage"]["cost"]
    assert f"{parts.pop('total_cost'):f}" == cost
    assert exact_sum(list(parts.values())) == Decimal(cost)


def exact_sum(parts: list[Decimal]) -> Decimal:
    """A sum without the rounding of Decimal's usual 28 digits."""
    with localcontext() as context:
        context.prec = 80
        return sum(parts, Decimal(0))
