"""Reads a request of Perplexity's synchronous Sonar API (perplexity-api §§3.2, 4): a chat of ours.

Sonar's models are names for models of the catalogue; every other id of the catalogue is taken as it is.
What would change the answer's form and cannot be had (tools, JSON) is a 400; what only shapes the
search or the sampling is listed as ignored (SPEC 10.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields, fields_of
from proxy.protocol.chat import ChatRequest, parse_chat
from proxy.protocol.web_request import Recency

StreamMode = Literal["full", "concise"]
STREAM_MODES: tuple[StreamMode, ...] = ("full", "concise")
SEARCH_MODES = ("web", "academic", "sec")
RECENCIES = ("hour", "day", "week", "month", "year")
_RECENCY: Mapping[str, Recency] = {"day": "DAY", "week": "WEEK", "month": "MONTH", "year": "YEAR"}
"""In the web upstream's words (perplexity-web §4); it has none for an hour."""
EFFORTS = ("minimal", "low", "medium", "high")
LONGEST_NAME = 200
MOST_MESSAGES = 2000
MOST_PARTS = 500
MODELS: Mapping[str, tuple[str, bool]] = {
    "sonar": ("sonar", False),
    "sonar-pro": ("sonar", False),
    "sonar-reasoning": ("gpt", True),
    "sonar-reasoning-pro": ("gpt", True),
}
"""Sonar's name → id in the catalogue, and whether it thinks."""
WITHOUT_EFFECT = (
    "best_of",
    "country",
    "disable_search",
    "enable_search_classifier",
    "frequency_penalty",
    "image_domain_filter",
    "image_format_filter",
    "last_updated_after_filter",
    "last_updated_before_filter",
    "latitude",
    "logprobs",
    "longitude",
    "max_tokens",
    "n",
    "num_images",
    "num_search_results",
    "parallel_tool_calls",
    "presence_penalty",
    "response_formatting_locale",
    "return_images",
    "return_related_questions",
    "safe_search",
    "search_language_filter",
    "stop",
    "temperature",
    "top_k",
    "top_logprobs",
    "top_p",
    "web_search_options",
)
"""Members of a chat request (perplexity-api §3.2) that mean nothing to whoever answers it here."""
UNHONOURED = tuple(
    sorted((*WITHOUT_EFFECT, "search_after_date_filter", "search_before_date_filter", "search_domain_filter"))
)
"""With those that a web session has no use for: told in the answer."""


@dataclass(frozen=True, slots=True)
class SonarRequest:
    """`chat` is the request as the engine takes it; `model` is the name that the caller knows."""

    chat: ChatRequest
    model: str
    stream_mode: StreamMode = "full"


def parse_sonar(body: object) -> SonarRequest:
    """Raises BadRequest. Whether the model exists is the catalogue's question."""
    fields = fields_of(body)
    model = fields.word("model", longest=LONGEST_NAME)
    if model is None:
        raise fields.refuse("model", "is required")
    _refuse_forms(fields)
    known, thinks = MODELS.get(model, (model, False))
    search_mode = fields.choice("search_mode", SEARCH_MODES)
    chat = parse_chat(
        {
            "model": known,
            "messages": _messages(fields),
            "stream": fields.flag("stream"),
            "thinking": thinks,
            "reasoning_effort": fields.choice("reasoning_effort", EFFORTS),
            "sources": ["scholar"] if search_mode == "academic" else None,
            "language": fields.values.get("language_preference"),
        },
        known,
    )
    ignored = [name for name in UNHONOURED if fields.values.get(name) not in (None, False)]
    recency = fields.choice("search_recency_filter", RECENCIES)
    if recency == "hour":
        ignored.append("search_recency_filter")
    if search_mode == "sec":
        ignored.append("search_mode")
    stream_mode = fields.choice("stream_mode", STREAM_MODES) or "full"
    asked = replace(chat, ignored=tuple(ignored), keeps_marks=True, recency=_RECENCY.get(recency or ""))
    return SonarRequest(asked, model, stream_mode)


def _refuse_forms(fields: Fields) -> None:
    """Answers in a form that only an upstream of its own could promise."""
    if fields.values.get("tools"):
        raise fields.refuse("tools", "are not supported here: POST /v1/chat/completions takes functions")
    if fields.choice("tool_choice", ("none", "auto", "required")) == "required":
        raise fields.refuse("tool_choice", "can only be none or auto")
    if fields.inner("response_format").values.get("type") not in (None, "text"):
        raise fields.refuse("response_format", 'can only be {"type": "text"}')


def _messages(fields: Fields) -> list[object]:
    """As Chat Completions has them: only the parts that name a file have another form."""
    return [_message(value) for value in fields.items("messages", most=MOST_MESSAGES)]


def _message(value: object) -> object:
    if not isinstance(value, dict) or not isinstance(value.get("content"), list):
        return value
    if len(value["content"]) > MOST_PARTS:
        raise BadRequest(f"content must have at most {MOST_PARTS} entries", param="content")
    return {**value, "content": [chat_part(part) for part in value["content"]]}


def chat_part(part: object) -> object:
    """A part of a message as Chat Completions has it. What holds neither colon nor dot is base64."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in ("file_url", "pdf_url"):
        return part
    address = part.get(kind)
    url = address.get("url") if isinstance(address, dict) else address
    name = part.get("file_name") or ("document.pdf" if kind == "pdf_url" else None)
    is_base64 = isinstance(url, str) and not {":", "."} & set(url[:200])
    return {"type": "file", "file": {"file_data" if is_base64 else "file_url": url, "filename": name}}
