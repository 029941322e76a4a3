"""Reading a Sonar request: 422 for a wrong shape, unknown fields pass (perplexity-api §3.1, §3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.bodies import decode
from sandbox.findings import Reach
from sandbox.wire import refusal, reply
from sandbox.world import Refused

MODELS = ("sonar", "sonar-pro", "sonar-reasoning-pro", "sonar-deep-research")
_ENUMS: Mapping[str, Sequence[str]] = {
    "stream_mode": ("full", "concise"),
    "reasoning_effort": ("minimal", "low", "medium", "high"),
    "search_mode": ("web", "academic", "sec"),
}
_RANGES: Mapping[str, tuple[float, float]] = {
    "max_tokens": (1, 128_000),
    "temperature": (0, 2),
    "top_p": (0, 1),
}
_RECENCIES = (None, "hour", "day", "week", "month", "year")
_ROLES = ("user", "assistant", "system", "tool")


@dataclass(frozen=True, slots=True)
class SonarAsk:
    """A chat request that was accepted; `question` is the last user message's text."""

    question: str
    model: str
    stream: bool
    concise: bool
    reach: Reach


def invalid(location: Sequence[str | int], message: str, kind: str) -> Refused:
    """The 422 of a FastAPI application."""
    return Refused(reply(422, {"detail": [{"loc": ["body", *location], "msg": message, "type": kind}]}))


def read_object(body: bytes) -> Mapping[str, Any]:
    """A body that must be a JSON object; raises Refused with 422."""
    try:
        decoded = decode(body)
    except ValueError as unreadable:
        raise invalid([0], "JSON decode error", "json_invalid") from unreadable
    if not isinstance(decoded, dict):
        raise invalid([], "Input should be a valid dictionary", "model_attributes_type")
    return decoded


def _content_text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict)).strip()
    return content if isinstance(content, str) else ""


def _question(messages: object, at: Sequence[str]) -> str:
    place = [*at, "messages"]
    if not isinstance(messages, list):
        raise invalid(place, "Input should be a valid list", "list_type")
    if not messages:
        raise invalid(place, "List should have at least 1 item after validation", "too_short")
    question = ""
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            expected = "Input should be 'user', 'assistant', 'system' or 'tool'"
            raise invalid([*place, index, "role"], expected, "enum")
        if message["role"] == "user":
            question = _content_text(message.get("content"))
    return question


def _check_values(asked: Mapping[str, Any], at: Sequence[str]) -> None:
    for name, words in _ENUMS.items():
        if asked.get(name) is not None and asked[name] not in words:
            listed = ", ".join(f"'{word}'" for word in words)
            raise invalid([*at, name], f"Input should be one of {listed}", "enum")
    for name, (lowest, highest) in _RANGES.items():
        value = asked.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid([*at, name], "Input should be a valid number", "float_type")
        if not lowest <= value <= highest:
            raise invalid([*at, name], f"Input should be between {lowest} and {highest}", "out_of_range")


def _reach(asked: Mapping[str, Any]) -> Reach:
    """A wrong recency filter is accepted, and silently finds nothing (§3.2)."""
    searches = asked.get("disable_search") is not True
    return Reach(searches, searches, asked.get("search_recency_filter") in _RECENCIES)


def read_chat(asked: object, at: Sequence[str] = ()) -> SonarAsk:
    """Checks a chat request found at `at` in the body; raises Refused: 422, or 400 for an unknown model."""
    if not isinstance(asked, dict):
        raise invalid(at, "Input should be a valid dictionary", "model_attributes_type")
    for name in ("model", "messages"):
        if name not in asked:
            raise invalid([*at, name], "Field required", "missing")
    _check_values(asked, at)
    question = _question(asked["messages"], at)
    if asked["model"] not in MODELS:
        raise Refused(refusal(400, "invalid_model", f"Invalid model '{asked['model']}'.", "model"))
    return SonarAsk(
        question=question,
        model=asked["model"],
        stream=asked.get("stream") is True,
        concise=asked.get("stream_mode") == "concise",
        reach=_reach(asked),
    )
