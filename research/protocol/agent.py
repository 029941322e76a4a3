"""Reads a request of the research agent API (agent-api §2): JSON in, RunRequest out.

One clear 400 that names the field for everything that is wrong. Unknown fields are ignored;
known ones that no research run honours are listed, and told in the answer (SPEC 10.9).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal
from uuid import UUID

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from portal.wire.idempotency import read_idempotency_key
from portal.wire.ids import parse_response_id
from portal.wire.metadata import read_metadata
from research.protocol.filters import read_search
from research.protocol.options import RunRequest
from research.protocol.outcome import Options
from research.protocol.route import RESEARCH_MODELS
from research.protocol.turns import BETWEEN, Input, read_input, references

LONGEST_INSTRUCTIONS = 50_000
LONGEST_WORD = 100
MOST_IGNORED = 100
SearchMode = Literal["web", "academic", "sec"]
SEARCH_MODES: tuple[SearchMode, ...] = ("web", "academic", "sec")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
UNHONOURED = (
    "attachments",
    "conversation",
    "country",
    "image_domain_filter",
    "image_format_filter",
    "include",
    "last_updated_after_filter",
    "last_updated_before_filter",
    "max_output_tokens",
    "max_steps",
    "max_tokens",
    "max_tool_calls",
    "messages",
    "models",
    "parallel_tool_calls",
    "profile",
    "prompt",
    "prompt_cache_key",
    "response_format",
    "return_images",
    "return_related_questions",
    "safety_identifier",
    "search_language_filter",
    "service_tier",
    "skills",
    "temperature",
    "text",
    "tool_choice",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "web_search_options",
)
"""Fields of the Perplexity and OpenAI APIs that mean something there and nothing here."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*", re.ASCII)


def parse_run_request(body: Fields, headers: Mapping[str, str]) -> RunRequest:
    """`headers` are by lower-case name. Raises BadRequest."""
    asked = read_input(body)
    _refuse_modes(body)
    search, unread_tools = read_search(body)
    options = Options(
        instructions=read_instructions(body, asked),
        search_mode=body.choice("search_mode", SEARCH_MODES),
        recency=search.recency,
        domains=search.domains,
        after_date=search.after_date,
        before_date=search.before_date,
        reasoning_effort=_reasoning_effort(body),
        language=read_language(body),
        attachments=references(asked.attached),
    )
    return RunRequest(
        question=asked.question,
        options=options,
        attached=asked.attached,
        preset=_preset(body),
        metadata=read_metadata(body),
        idempotency_key=read_idempotency_key(body, headers),
        previous_id=_previous(body),
        retry_count=read_retry_count(headers),
        ignored=tuple([*_model(body), *_unhonoured(body), *asked.ignored, *unread_tools][:MOST_IGNORED]),
    )


def _refuse_modes(body: Fields) -> None:
    """A run is always in the background, and stored: a stream only looks on."""
    if body.flag("background") is False:
        raise body.refuse("background", "must be true: research always runs in the background")
    if body.flag("store") is False:
        raise body.refuse("store", "must be true: a run that is not stored cannot be polled")


def _preset(body: Fields) -> str | None:
    """`effort` is the newer name and wins; its version (`high@2026-10-16.0`) has no meaning here."""
    words = [body.word(name, longest=LONGEST_WORD) for name in ("effort", "preset")]
    chosen = next((word for word in words if word is not None), None)
    return chosen.partition("@")[0] if chosen else None


def _model(body: Fields) -> list[str]:
    """`model` never chooses the engine (agent-api §2); the answer tells so."""
    model = body.word("model", longest=LONGEST_WORD * 2)
    return [] if model is None or model in RESEARCH_MODELS else ["model"]


def _unhonoured(body: Fields) -> list[str]:
    reasoning = body.inner("reasoning")
    return [name for name in UNHONOURED if body.given(name)] + [
        reasoning.param(name) for name in ("summary", "generate_summary") if reasoning.given(name)
    ]


def read_instructions(body: Fields, asked: Input) -> str | None:
    said = [body.text(name, longest=LONGEST_INSTRUCTIONS) for name in ("instructions", "system_prompt")]
    whole = BETWEEN.join(text.strip() for text in [*said, *asked.instructions] if text and text.strip())
    if len(whole) > LONGEST_INSTRUCTIONS:
        raise body.refuse("instructions", f"must be at most {LONGEST_INSTRUCTIONS:,} characters")
    return whole or None


def _reasoning_effort(body: Fields) -> str | None:
    """`reasoning.effort` as OpenAI and the Agent API have it, `reasoning_effort` as Sonar has it."""
    inside = body.inner("reasoning").choice("effort", EFFORTS)
    flat = body.choice("reasoning_effort", EFFORTS)
    if inside and flat and inside != flat:
        raise body.refuse("reasoning_effort", "contradicts reasoning.effort")
    return inside or flat


def read_language(body: Fields) -> str | None:
    code = body.word("language_preference", longest=LONGEST_WORD)
    if code is not None and not _LANGUAGE.fullmatch(code):
        raise body.refuse("language_preference", "must be a language code like en or pt-BR")
    return code


def _previous(body: Fields) -> UUID | None:
    text = body.text("previous_response_id", longest=LONGEST_WORD * 10)
    if text is None:
        return None
    found = parse_response_id(text)
    if found is None:
        # Word for word what the service says of an unknown or foreign id.
        raise BadRequest("No response with this id exists.", param="previous_response_id")
    return found


def read_retry_count(headers: Mapping[str, str]) -> int:
    text = headers.get("x-stainless-retry-count", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
