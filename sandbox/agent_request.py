"""Reading an Agent API request as strictly as the upstream does: any unknown key, nested or not, is a 400.

Messages marked [rec] in perplexity-api §2 are word for word; the others are written in the same voice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from sandbox.findings import Reach
from sandbox.wire import refusal
from sandbox.world import Refused

PRESETS = ("fast", "low", "medium", "high", "xhigh", "wide-research")
OLD_PRESETS = {
    "fast-search": "fast",
    "pro-search": "low",
    "deep-research": "medium",
    "advanced-deep-research": "high",
}
_RECENCIES = ("hour", "day", "week", "month", "year")
_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "preset": ("string", (str,)),
    "effort": ("string", (str,)),
    "model": ("string", (str,)),
    "models": ("[]string", (list,)),
    "profile": ("object", (dict,)),
    "instructions": ("string", (str,)),
    "tools": ("[]tool", (list,)),
    "tool_choice": ("string or object", (str, dict)),
    "max_steps": ("int", (int,)),
    "max_output_tokens": ("int", (int,)),
    "max_tool_calls": ("int", (int,)),
    "background": ("bool", (bool,)),
    "stream": ("bool", (bool,)),
    "store": ("bool", (bool,)),
    "previous_response_id": ("string", (str,)),
    "reasoning": ("object", (dict,)),
    "response_format": ("object", (dict,)),
    "temperature": ("float", (int, float)),
    "top_p": ("float", (int, float)),
    "parallel_tool_calls": ("bool", (bool,)),
    "truncation": ("string", (str,)),
    "metadata": ("object", (dict,)),
    "service_tier": ("string", (str,)),
    "prompt_cache_key": ("string", (str,)),
    "language_preference": ("string", (str,)),
    "skills": ("[]object", (list,)),
    "step_budget_reminder": ("bool", (bool,)),
}
_FILTERS = frozenset(
    [
        "search_domain_filter",
        "search_recency_filter",
        "search_after_date_filter",
        "search_before_date_filter",
        "last_updated_after_filter",
        "last_updated_before_filter",
    ]
)
_TOOLS: Mapping[str, frozenset[str]] = {
    "web_search": frozenset(
        [
            "filters",
            "search_context_size",
            "search_type",
            "user_location",
            "max_tokens",
            "max_tokens_per_page",
            "max_results",
        ]
    ),
    "fetch_url": frozenset({"max_urls"}),
    "image_search": frozenset({"filters", "max_results"}),
    "people_search": frozenset(),
    "finance_search": frozenset(),
    "sandbox": frozenset(),
    "function": frozenset({"name", "description", "parameters", "strict"}),
    "mcp": frozenset(
        [
            "server_label",
            "server_url",
            "allowed_tools",
            "authorization",
            "headers",
            "require_approval",
            "defer_loading",
        ]
    ),
    "connector": frozenset(["id", "server_label", "server_description", "allowed_tools", "require_approval"]),
    "namespace": frozenset({"name", "description", "tools"}),
}
_NESTED: Mapping[str, frozenset[str]] = {
    "web_search.filters": _FILTERS,
    "web_search.user_location": frozenset(["latitude", "longitude", "country", "region", "city"]),
    "image_search.filters": frozenset(["domain_filter", "format_filter", "safe_search"]),
}
_ITEMS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"type", "role", "content", "id", "status"}),
    "function_call": frozenset(["type", "id", "call_id", "name", "arguments", "status", "thought_signature"]),
    "function_call_output": frozenset(["type", "call_id", "output", "name", "thought_signature"]),
    "reasoning": frozenset(["type", "id", "summary", "content", "encrypted_content", "status"]),
}
_PARTS = frozenset(
    ["type", "text", "image_url", "file_url", "file_data", "filename", "detail", "annotations"]
)
_ROLES = ("user", "assistant", "system", "developer")


@dataclass(frozen=True, slots=True)
class AgentAsk:
    """An accepted request. `name` is the preset, effort or model that the run shows until completed."""

    question: str
    name: str
    model: str
    background: bool
    stream: bool
    store: bool
    previous: str | None
    reach: Reach


def _refuse(message: str, param: str | None = None, kind: str = "invalid_request") -> NoReturn:
    raise Refused(refusal(400, kind, message, param))


def _only(found: object, known: frozenset[str]) -> None:
    if not isinstance(found, dict):
        _refuse("invalid request body: json: cannot unmarshal into an object")
    for name in found:
        if name not in known:
            _refuse(f'invalid request body: json: unknown field "{name}"', name)


def _check_types(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if name == "input":
            continue
        wanted, types = _TYPES[name]
        wrong_bool = isinstance(value, bool) and bool not in types
        if value is not None and (wrong_bool or not isinstance(value, types)):
            _refuse(f"invalid request body: json: cannot unmarshal field {name} into type {wanted}", name)


def _check_tool(index: int, tool: object) -> None:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(kind, str) or kind not in _TOOLS:
        _refuse(f"validation failed: tools[{index}]: unknown tool type", "tools")
    _only(tool, _TOOLS[kind] | {"type"})
    for name, value in tool.items():
        if value is not None and f"{kind}.{name}" in _NESTED:
            _only(value, _NESTED[f"{kind}.{name}"])
    recency = (tool.get("filters") or {}).get("search_recency_filter") if kind == "web_search" else None
    if recency is not None and recency not in _RECENCIES:
        words = " ".join(_RECENCIES)
        _refuse(f"validation failed: tools[{index}]: search recency filter must be one of: {words}", "tools")


def _check_numbers(body: Mapping[str, Any]) -> None:
    for name, words in (("max_steps", "max steps"), ("max_output_tokens", "max output tokens")):
        if body.get(name) is not None and body[name] < 1:
            _refuse(f"validation failed: {words} must be at least 1", name)
    for name, highest in (("temperature", 2), ("top_p", 1)):
        if body.get(name) is not None and not 0 <= body[name] <= highest:
            _refuse(f"validation failed: {name} must be between 0 and {highest}", name, "invalid_parameter")


def _check_metadata(metadata: Mapping[str, object] | None) -> None:
    for key, value in (metadata or {}).items():
        if len(key) > 64 or not isinstance(value, str) or len(value) > 512:
            _refuse("validation failed: metadata keys take 64 and values 512 characters", "metadata")
    if metadata and len(metadata) > 16:
        _refuse("validation failed: metadata has at most 16 keys", "metadata")


def _check_objects(body: Mapping[str, Any]) -> None:
    _only(body.get("reasoning") or {}, frozenset({"effort"}))
    effort = (body.get("reasoning") or {}).get("effort")
    if effort not in (None, "none", "minimal", "low", "medium", "high", "xhigh", "max"):
        _refuse("validation failed: reasoning effort is not known", "reasoning", "invalid_parameter")
    _only(body.get("profile") or {}, frozenset({"type", "id", "version"}))
    layout = body.get("response_format") or {}
    _only(layout, frozenset({"type", "json_schema"}))
    _only(layout.get("json_schema") or {}, frozenset({"name", "schema", "strict", "description"}))


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        _refuse("validation failed: content must be a string or a list of parts", "input")
    texts = []
    for part in content:
        if not isinstance(part, dict):
            _refuse("validation failed: a content part must be an object", "input")
        _only(part, _PARTS)
        texts.append(str(part.get("text") or ""))
    return "\n".join(text for text in texts if text)


def _question(given: object) -> str:
    """The last user message's text: there the markers stand."""
    if isinstance(given, str):
        items: list[Any] = [{"role": "user", "content": given}] if given.strip() else []
    elif isinstance(given, list):
        items = given
    else:
        items = []
    if not items:
        _refuse("validation failed: input cannot be empty", "input")
    question = ""
    for item in items:
        if not isinstance(item, dict):
            _refuse("validation failed: an input item must be an object", "input")
        kind = str(item.get("type", "message"))
        if kind in _ITEMS:
            _only(item, _ITEMS[kind])
        elif not kind.startswith("mcp_"):
            _refuse(f"validation failed: unknown input item type {kind}", "input")
        if kind == "message":
            if item.get("role") not in _ROLES:
                _refuse("validation failed: unknown role", "input")
            text = _text_of(item.get("content"))
            question = text if item["role"] == "user" else question
    return question


def _preset(given: str) -> str:
    base = given.partition("@")[0]
    base = OLD_PRESETS.get(base, base)
    if base not in PRESETS:
        _refuse(f"validation failed: unknown preset {given}", "preset", "invalid_parameter")
    return base


def _naming(body: Mapping[str, Any]) -> tuple[str, str]:
    """(name shown until completed, model that answers); effort beats preset, models beat model."""
    models = body.get("models") or ([body["model"]] if body.get("model") else [])
    if len(models) > 5:
        _refuse("validation failed: at most 5 models", "models")
    for model in models:
        provider, slash, name = str(model).partition("/")
        if not (provider and slash and name) or model == "perplexity/sonar-pro":
            _refuse(f"validation failed: model {model} is not supported", "model", "invalid_model")
    bundle = body.get("effort") or body.get("preset")
    if bundle:
        _preset(bundle)
        return bundle, models[0] if models else "openai/gpt-6-luna"
    if models:
        return models[0], models[0]
    if body.get("profile"):
        return str(body["profile"].get("id")), "openai/gpt-6-luna"
    _refuse("validation failed: one of preset, effort, profile, model or models is required", "model")


def _reach(body: Mapping[str, Any]) -> Reach:
    """A bare model does not search; listed tools replace those of a preset, as recorded (§5.3)."""
    listed = [tool["type"] for tool in body.get("tools") or ()]
    off = body.get("max_tool_calls") == 0 or body.get("tool_choice") == "none"
    own = not listed and bool(body.get("effort") or body.get("preset") or body.get("profile"))
    return Reach(not off and (own or "web_search" in listed), not off and (own or "fetch_url" in listed))


def read_ask(body: object) -> AgentAsk:
    """Checks a decoded body; raises Refused with 400."""
    if not isinstance(body, dict):
        _refuse("invalid request body: json: cannot unmarshal into an object")
    _only(body, frozenset(_TYPES) | {"input"})
    _check_types(body)
    question = _question(body.get("input"))
    for index, tool in enumerate(body.get("tools") or ()):
        _check_tool(index, tool)
    _check_numbers(body)
    _check_metadata(body.get("metadata"))
    _check_objects(body)
    name, model = _naming(body)
    if model.startswith("anthropic/") and body.get("max_output_tokens") is None:
        _refuse("validation failed: max_output_tokens is required for anthropic models", "max_output_tokens")
    return AgentAsk(
        question=question,
        name=name,
        model=model,
        background=bool(body.get("background")),
        stream=bool(body.get("stream")),
        store=body.get("store") is not False,
        previous=body.get("previous_response_id"),
        reach=_reach(body),
    )
