from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from proxy.protocol.delta import Thread
from proxy.protocol.session import TOKEN
from proxy.protocol.web_request import (
    Ask,
    AskIds,
    ask_body,
    ask_headers,
    browser_headers,
    delete_body,
    reconnect_body,
    reconnect_path,
    terminate_body,
    versioned,
)

IDS = AskIds("f-1", "c-1", "v-1", "n-1")
ASK = Ask('{"query": "潮?"}', "gpt56_terra")
SEED_BLOCKS = [
    *("answer_modes", "media_items", "knowledge_cards", "inline_entity_cards", "place_widgets"),
    *("finance_widgets", "sports_widgets", "shopping_widgets", "search_result_widgets"),
]


def params(ask: Ask) -> dict[str, Any]:
    body = json.loads(ask_body(ask, IDS))
    assert set(body) == {"query_str", "params"}
    assert body["query_str"] == ask.query
    found: dict[str, Any] = body["params"]
    return found


def test_it_sends_every_field_of_the_reference() -> None:
    assert params(ASK) == {
        "attachments": [],
        "frontend_context_uuid": "c-1",
        "frontend_uuid": "f-1",
        "is_incognito": True,
        "language": "en-US",
        "last_backend_uuid": None,
        "mode": "copilot",
        "model_preference": "gpt56_terra",
        "source": "default",
        "sources": ["web"],
        "search_focus": "internet",
        "search_recency_filter": None,
        "timezone": "UTC",
        "visitor_id": "v-1",
        "user_nextauth_id": "n-1",
        "prompt_source": "user",
        "query_source": "home",
        "browser_history_summary": [],
        "is_related_query": False,
        "is_sponsored": False,
        "is_nav_suggestions_disabled": False,
        "use_schematized_api": True,
        "send_back_text_in_streaming_api": False,
        "supported_block_use_cases": SEED_BLOCKS,
        "client_coordinates": None,
        "version": "2.18",
        "should_ask_for_mcp_tool_confirmation": False,
        "supports_tool_approval_modal": False,
    }


def test_it_does_not_escape_what_utf8_can_carry() -> None:
    assert "潮".encode() in ask_body(ASK, IDS)


CHANGES: list[tuple[Ask, str, Any]] = [
    (replace(ASK, attachments=("https://b/1", "https://a/2")), "attachments", ["https://b/1", "https://a/2"]),
    (replace(ASK, sources=("web", "scholar")), "sources", ["web", "scholar"]),
    (replace(ASK, language="de-DE"), "language", "de-DE"),
    (replace(ASK, timezone="Asia/Taipei"), "timezone", "Asia/Taipei"),
    (replace(ASK, version="2.19"), "version", "2.19"),
    (replace(ASK, incognito=False), "is_incognito", False),
    (replace(ASK, recency="WEEK"), "search_recency_filter", "WEEK"),
    (
        replace(ASK, coordinates={"location_lat": 1, "location_lng": 2, "name": "x"}),
        "client_coordinates",
        {"location_lat": 1, "location_lng": 2, "name": "x"},
    ),
    (replace(ASK, compare=("gpt55", "grok4")), "compare_model_preferences", ["gpt55", "grok4"]),
]


@pytest.mark.parametrize(("ask", "name", "value"), CHANGES)
def test_it_sends_what_is_asked_for(ask: Ask, name: str, value: Any) -> None:
    assert params(ask) == params(ASK) | {name: value}


MODES = [
    ("pplx_pro", "pro", "concise"),
    ("gpt55", "pro", "copilot"),
    ("gpt55_thinking", "reasoning", "copilot"),
    ("pplx_alpha", "deep research", "copilot"),
    ("gpt55", "auto", "concise"),
    ("gpt55", "concise", "concise"),
]


@pytest.mark.parametrize(("preference", "ours", "theirs"), MODES)
def test_it_derives_the_mode(preference: str, ours: str, theirs: str) -> None:
    assert params(replace(ASK, preference=preference, mode=ours))["mode"] == theirs


def test_it_asks_research_for_its_step_list_where_the_report_is() -> None:
    assert params(replace(ASK, preference="pplx_alpha"))["send_back_text_in_streaming_api"] is True


def test_it_follows_a_thread_as_the_browser_does() -> None:
    found = params(replace(ASK, follows=Thread("b-1", "x-1", "rw-1", "s-1")))
    expected = params(ASK) | {
        "last_backend_uuid": "b-1",
        "read_write_token": "rw-1",
        "query_source": "followup",
        "followup_source": "link",
    }
    del expected["frontend_context_uuid"]

    assert found == expected


def test_it_follows_a_thread_without_its_token_as_the_original_did() -> None:
    assert params(replace(ASK, follows=Thread("b-1"))) == params(ASK) | {"last_backend_uuid": "b-1"}


def test_it_names_its_paths() -> None:
    assert reconnect_path("b-1") == "/rest/sse/perplexity_ask/reconnect/b-1"
    assert versioned("/rest/models/config", "2.18") == "/rest/models/config?version=2.18&source=default"


def test_it_resumes_stops_and_deletes() -> None:
    thread = Thread("b-1", "c-9", "rw-1")

    assert json.loads(reconnect_body()) == {"reconnectInitialSnapshot": True}
    assert json.loads(delete_body(thread)) == {"entry_uuid": "b-1", "read_write_token": "rw-1"}
    assert json.loads(terminate_body(thread, "turbo", 17)) == {
        "entry_uuid": "b-1",
        "context_uuid": "c-9",
        "model_preference": "turbo",
        "terminate_requested_at_ms": 17,
    }


def test_it_looks_like_a_browser() -> None:
    headers = browser_headers("Agent/1", {TOKEN: "t", "cf": "1"})

    assert headers["user-agent"] == "Agent/1"
    assert headers["cookie"] == f"{TOKEN}=t; cf=1"
    assert all(name == name.lower() for name in headers)
    assert "authorization" not in headers


def test_it_asks_as_the_page_does() -> None:
    headers = ask_headers("Agent/1", {TOKEN: "t"}, "https://w.example", "f-1")

    assert headers["x-request-id"] == "f-1"
    assert headers["origin"] == "https://w.example"
    assert headers["content-type"] == "application/json"
    assert headers["accept"] == "text/event-stream"
