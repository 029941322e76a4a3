"""Reads a job of Perplexity's asynchronous Sonar API (perplexity-api §3): JSON in, RunRequest out.

The API is retired; its clients run against the portal by changing a base URL. What its efforts mean
here: perplexity-api §5.12 and SPEC 10.10.
"""

from __future__ import annotations

from collections.abc import Mapping

from portal.wire.fields import Fields
from portal.wire.idempotency import read_idempotency_key
from proxy.protocol.sonar import WITHOUT_EFFECT
from research.protocol.agent import (
    MOST_IGNORED,
    SEARCH_MODES,
    read_instructions,
    read_language,
    read_retry_count,
)
from research.protocol.filters import read_search
from research.protocol.options import RunRequest
from research.protocol.outcome import Options
from research.protocol.turns import read_messages, references

MODEL = "sonar-deep-research"
EFFORTS = ("minimal", "low", "medium", "high")
DEFAULT_EFFORT = "medium"
LEAST_BUDGET = 1800
"""Seconds that every Sonar-shaped run may take: its clients wait for as long."""
LONGEST_MODEL = 200
UNHONOURED = tuple(sorted((*WITHOUT_EFFECT, "response_format", "stream", "stream_mode", "tool_choice")))
"""With those that mean nothing to a research run: told in the answer."""


def preset_of(effort: str | None) -> str:
    """The preset, as a name or an alias, whose price and depth an effort has."""
    chosen = effort or DEFAULT_EFFORT
    return "2m" if chosen == "minimal" else chosen


def parse_job(body: Fields, headers: Mapping[str, str]) -> RunRequest:
    """`headers` are by lower-case name. Raises BadRequest."""
    if not body.given("request"):
        raise body.refuse("request", "is required: the chat request to work on")
    request = body.inner("request")
    _check_model(request)
    asked = read_messages(request)
    search, unread_tools = read_search(request)
    options = Options(
        instructions=read_instructions(request, asked),
        search_mode=request.choice("search_mode", SEARCH_MODES),
        recency=search.recency,
        domains=search.domains,
        after_date=search.after_date,
        before_date=search.before_date,
        language=read_language(request),
        attachments=references(asked.attached),
    )
    ignored = [request.param(name) for name in UNHONOURED if request.values.get(name) not in (None, False)]
    return RunRequest(
        question=asked.question,
        options=options,
        attached=asked.attached,
        preset=preset_of(request.choice("reasoning_effort", EFFORTS)),
        idempotency_key=read_idempotency_key(body, headers),
        retry_count=read_retry_count(headers),
        least_budget=LEAST_BUDGET,
        ignored=tuple([*ignored, *asked.ignored, *unread_tools][:MOST_IGNORED]),
    )


def _check_model(request: Fields) -> None:
    """Chat models answer at once, not here."""
    model = request.word("model", longest=LONGEST_MODEL)
    if model != MODEL:
        error = request.refuse(
            "model", f"must be {MODEL} here: ask every other model at POST /chat/completions"
        )
        error.code = "model_not_found"
        raise error
