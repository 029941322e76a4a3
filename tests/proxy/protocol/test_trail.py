from __future__ import annotations

import json
from collections.abc import Mapping

from portal.wire.sse import SseRecord
from proxy.protocol.trail import MOST, Trail
from proxy.protocol.web_events import WebAnswer


def page(number: int) -> dict[str, object]:
    return {"name": f"Page {number}", "url": f"https://a.example/{number}", "snippet": ""}


def trail_of(*frames: dict[str, object]) -> Trail:
    answer = WebAnswer("pplx_alpha", Trail())
    for frame in frames:
        answer.read(SseRecord("message", json.dumps(frame).encode()))
    assert answer.trail is not None
    return answer.trail


def steps(*given: Mapping[str, object]) -> dict[str, object]:
    plan = {"goals": [{"description": "Know the moon"}], "steps": list(given)}
    return {"blocks": [{"intended_usage": "pro_search_steps", "plan_block": plan}]}


def test_it_keeps_all_pages_of_a_step_that_reasoning_shows_three_of() -> None:
    urls = [f"https://a.example/{number}" for number in range(9)]
    trail = trail_of(steps({"step_type": "READ_RESULTS", "read_results_content": {"urls": urls}}))
    assert list(trail.read) == urls


def test_it_keeps_each_goal_query_and_page_once() -> None:
    search = {
        "step_type": "SEARCH_WEB",
        "search_web_content": {"queries": [{"query": "tides"}, "moon", "tides", ""]},
    }
    results = {"step_type": "SEARCH_RESULTS", "web_results_content": {"web_results": [page(1), page(1)]}}
    frame = steps(search, results)
    trail = trail_of(frame, frame)
    assert list(trail.goals) == ["Know the moon"]
    assert list(trail.queries) == ["tides", "moon"]
    assert list(trail.found) == ["https://a.example/1"]


def test_it_reads_the_step_list_and_the_workflow_too() -> None:
    text = json.dumps(
        [
            {"step_type": "SEARCH_WEB", "content": {"queries": [{"query": "ebb"}]}},
            {
                "step_type": "FINAL",
                "content": {"answer": json.dumps({"answer": "a", "web_results": [page(2)]})},
            },
        ]
    )
    items = [
        {"type": "WORKFLOW_ITEM_QUERIES", "payload": {"queries_payload": {"queries": ["flood"]}}},
        {"type": "WORKFLOW_ITEM_SOURCES", "payload": {"sources_payload": {"sources": [page(3)]}}},
    ]
    workflow = {"intended_usage": "workflow_root", "workflow_block": {"steps": [{"items": items}]}}
    trail = trail_of({"text": text}, {"blocks": [workflow]}, {"plan": {"goals": [{"description": "Old"}]}})
    assert list(trail.queries) == ["ebb", "flood"]
    assert list(trail.found) == ["https://a.example/2", "https://a.example/3"]
    assert list(trail.goals) == ["Old"]


def test_it_keeps_a_bounded_number() -> None:
    trail = Trail()
    trail.note_found(page(number) for number in range(MOST + 5))
    trail.note_queries(f"query {number}" for number in range(MOST + 5))
    assert (len(trail.found), len(trail.queries)) == (MOST, MOST)
