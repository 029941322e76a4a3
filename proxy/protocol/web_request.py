"""What is sent to the web upstream: the ask and the requests around it (perplexity-web §§1, 4, 15).

Random ids, time and settings are arguments. JSON bodies are UTF-8 without escapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

import msgspec

from proxy.protocol.delta import Thread
from proxy.protocol.session import Jar, cookie_header

Recency = Literal["DAY", "WEEK", "MONTH", "YEAR"]

ASK_PATH = "/rest/sse/perplexity_ask"
TERMINATE_PATH = "/rest/sse/perplexity_terminate"
DELETE_PATH = "/rest/thread/delete_thread_by_entry_uuid"
SESSION_PATH = "/api/auth/session"
QUOTA_PATH = "/rest/rate-limit/all"
RESEARCH = "pplx_alpha"
BEST = "pplx_pro"
_CONCISE_MODES = ("auto", "concise")
_BLOCKS = (
    "answer_modes",
    "media_items",
    "knowledge_cards",
    "inline_entity_cards",
    "place_widgets",
    "finance_widgets",
    "sports_widgets",
    "shopping_widgets",
    "search_result_widgets",
)
_encode = msgspec.json.Encoder().encode


def reconnect_path(entry: str) -> str:
    return f"{ASK_PATH}/reconnect/{quote(entry, safe='')}"


def versioned(path: str, version: str) -> str:
    """A REST path with the version that the upstream insists on."""
    return f"{path}?version={version}&source=default"


@dataclass(frozen=True, slots=True)
class AskIds:
    """Fresh UUIDs, as text: of the request, its thread container, and two that nobody reads."""

    request: str
    context: str
    visitor: str
    user: str


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. `query` is `query_str` as it goes out; `mode` is the model's mode of our table.

    `follows` continues a thread: its entry, and its token where it is known. `attachments` are
    storage addresses. `coordinates` is `{location_lat, location_lng, name}`.
    """

    query: str
    preference: str
    mode: str = "pro"
    sources: tuple[str, ...] = ("web",)
    language: str = "en-US"
    timezone: str = "UTC"
    version: str = "2.18"
    incognito: bool = True
    follows: Thread | None = None
    attachments: tuple[str, ...] = ()
    recency: Recency | None = None
    coordinates: Mapping[str, object] | None = None
    compare: tuple[str, ...] = ()
    """Preferences of a model council; only `pplx_agentic_research` needs them."""


def ask_body(ask: Ask, ids: AskIds) -> bytes:
    """The body of `POST /rest/sse/perplexity_ask`."""
    params: dict[str, object] = {
        "attachments": ask.attachments,
        "frontend_context_uuid": ids.context,
        "frontend_uuid": ids.request,
        "is_incognito": ask.incognito,
        "language": ask.language,
        "last_backend_uuid": ask.follows.entry if ask.follows else None,
        "mode": _mode(ask),
        "model_preference": ask.preference,
        "source": "default",
        "sources": ask.sources,
        # Without it the upstream searches and then ignores what it found.
        "search_focus": "internet",
        "search_recency_filter": ask.recency,
        "timezone": ask.timezone,
        "visitor_id": ids.visitor,
        "user_nextauth_id": ids.user,
        "prompt_source": "user",
        "query_source": "home",
        "browser_history_summary": (),
        "is_related_query": False,
        "is_sponsored": False,
        "is_nav_suggestions_disabled": False,
        "use_schematized_api": True,
        # The report of deep research comes in the step list, never in the blocks asked for.
        "send_back_text_in_streaming_api": ask.preference == RESEARCH,
        "supported_block_use_cases": _BLOCKS,
        "client_coordinates": ask.coordinates,
        "version": ask.version,
        # Else a run may wait for a click that nobody gives.
        "should_ask_for_mcp_tool_confirmation": False,
        "supports_tool_approval_modal": False,
    }
    if ask.compare:
        params["compare_model_preferences"] = ask.compare
    if ask.follows and ask.follows.token:
        del params["frontend_context_uuid"]
        params |= {
            "read_write_token": ask.follows.token,
            "query_source": "followup",
            "followup_source": "link",
        }
    return _encode({"query_str": ask.query, "params": params})


def _mode(ask: Ask) -> str:
    return "concise" if ask.preference == BEST or ask.mode in _CONCISE_MODES else "copilot"


def reconnect_body() -> bytes:
    """Of `POST …/reconnect/{entry}`: the first frame is then everything so far."""
    return _encode({"reconnectInitialSnapshot": True})


def terminate_body(thread: Thread, preference: str, now_ms: int) -> bytes:
    """Of `POST /rest/sse/perplexity_terminate`; `preference` is the model that really answers."""
    return _encode(
        {
            "entry_uuid": thread.entry,
            "context_uuid": thread.context,
            "model_preference": preference,
            "terminate_requested_at_ms": now_ms,
        }
    )


def delete_body(thread: Thread) -> bytes:
    """Of `DELETE /rest/thread/delete_thread_by_entry_uuid`."""
    return _encode({"entry_uuid": thread.entry, "read_write_token": thread.token})


def browser_headers(user_agent: str, jar: Jar) -> dict[str, str]:
    """What every call carries, the session's cookies included."""
    return {
        "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "accept-language": "en-US,en;q=0.9",
        "cache-control": "max-age=0",
        "dnt": "1",
        "sec-ch-ua": '"Chromium";v="130", "Not?A_Brand";v="99"',
        "sec-ch-ua-mobile": "?0",
        "sec-ch-ua-platform": '"Linux"',
        "sec-fetch-dest": "document",
        "sec-fetch-mode": "navigate",
        "sec-fetch-site": "same-origin",
        "upgrade-insecure-requests": "1",
        "user-agent": user_agent,
        "cookie": cookie_header(jar),
    }


def ask_headers(user_agent: str, jar: Jar, origin: str, request_id: str) -> dict[str, str]:
    """Of a JSON request that the page itself makes; `request_id` is the body's `frontend_uuid`."""
    return browser_headers(user_agent, jar) | {
        "accept": "text/event-stream",
        "content-type": "application/json",
        "origin": origin,
        "referer": f"{origin}/",
        "sec-fetch-dest": "empty",
        "sec-fetch-mode": "cors",
        "x-request-id": request_id,
    }
