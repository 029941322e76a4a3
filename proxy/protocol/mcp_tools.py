"""The chat tools as agents see them: names, limits, words, schemas (proxy-contract §13, mcp-server §5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from portal.wire.fields import Fields
from portal.wire.tools import Json, Tool, ToolResult, members, or_none, parameters
from proxy.protocol.chat import SOURCES
from proxy.protocol.chat_stream import found_of
from proxy.protocol.delta import Done
from proxy.protocol.model_table import Model
from proxy.protocol.notices import appended, footer

DEFAULT = "default"
LONGEST_QUERY = 100_000
LONGEST_NAME = 200
REASONERS: Mapping[str, str] = {DEFAULT: "gpt", "claude": "sonnet"}
"""What `perplexity_reason` calls its models; every other name is the model's own."""
ASKED = "auto"
"""The model that `perplexity_ask` asks."""

_QUERY: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_QUERY,
    "description": "The question, whole: earlier calls are not remembered.",
}
_LANGUAGE: Json = {
    "type": "string",
    "default": "en-US",
    "description": "Language of the answer, as in en-US.",
}
_MARKS: Json = {"type": "array", "items": {"type": "string"}}
_ANSWER = members(
    {
        "answer": {"type": "string"},
        "model": {"type": "string", "description": "The model that was asked."},
        "answered_by": or_none("string", description="The one that answered, where known."),
        "sources": {
            "type": "array",
            "items": members(
                {
                    "id": {"type": "integer"},
                    "url": {"type": "string"},
                    "title": {"type": "string"},
                    "provenance": {"type": "string", "enum": ["cited", "retrieved"]},
                }
            ),
        },
        "checks": {
            **members({"out_of_range": _MARKS, "unattributed": _MARKS}),
            "description": "Marks of the answer that lead to no page, as [9].",
        },
        "notices": {"type": "array", "items": {"type": "string"}},
        "sandbox": {"type": "boolean", "description": "True: simulated, nothing was asked."},
    }
)

SEARCH = Tool(
    name="perplexity_search",
    title="Search the web",
    description=(
        "Ask a model that searches first: an answer with its sources within seconds. It uses up chat quota"
        " and credits."
    ),
    parameters=parameters(
        {
            "query": _QUERY,
            "model": {
                "type": "string",
                "default": DEFAULT,
                "description": "A model of perplexity_models; default is the portal's own choice.",
            },
            "sources": {
                "type": "string",
                "default": "web",
                "description": f"Where to search: a comma-separated list of {', '.join(SOURCES)}.",
            },
            "language": _LANGUAGE,
        },
        required=("query",),
    ),
    result=_ANSWER,
    reads_only=True,
    open_world=True,
)
ASK = Tool(
    name="perplexity_ask",
    title="Ask briefly",
    description="A quick, short answer from the web with its sources. For plain questions of fact.",
    parameters=parameters({"query": _QUERY, "language": _LANGUAGE}, required=("query",)),
    result=_ANSWER,
    reads_only=True,
    open_world=True,
)
REASON = Tool(
    name="perplexity_reason",
    title="Ask a thinking model",
    description=(
        "Ask a model that thinks before it answers, with a web search. Slower than perplexity_search. It"
        " uses up chat quota and credits."
    ),
    parameters=parameters(
        {
            "query": _QUERY,
            "model": {
                "type": "string",
                "default": DEFAULT,
                "description": "default, claude, or a model of perplexity_models.",
            },
            "language": _LANGUAGE,
        },
        required=("query",),
    ),
    result=_ANSWER,
    reads_only=True,
    open_world=True,
)
MODELS = Tool(
    name="perplexity_models",
    title="List the models",
    description="The models that perplexity_search and perplexity_reason take. Costs nothing.",
    parameters=parameters({}),
    result=members(
        {
            "default": {"type": "string"},
            "account_type": {"type": "string"},
            "models": {
                "type": "array",
                "items": members(
                    {
                        "id": {"type": "string"},
                        "label": {"type": "string"},
                        "mode": {"type": "string"},
                        "thinks": {"type": "boolean"},
                    }
                ),
            },
        }
    ),
    reads_only=True,
)


def search_body(arguments: Fields) -> Json:
    """The Chat Completions request behind a search. Raises BadRequest that names the argument."""
    named = arguments.text("sources", longest=LONGEST_NAME)
    chosen = ["web"] if named is None else [word.strip() for word in named.split(",")]
    if not set(chosen) <= set(SOURCES):
        raise arguments.refuse("sources", f"must be a comma-separated list of {', '.join(SOURCES)}")
    return {**_asked(arguments), **_model(arguments, {}), "sources": chosen}


def ask_body(arguments: Fields) -> Json:
    return {**_asked(arguments), "model": ASKED}


def reason_body(arguments: Fields) -> Json:
    return {
        **_asked(arguments),
        "model": REASONERS[DEFAULT],
        **_model(arguments, REASONERS),
        "thinking": True,
    }


def answered(
    text: str, done: Done, *, model: str, answered_by: str, notices: Sequence[str], sandbox: bool
) -> ToolResult:
    """`text` is the cleaned answer. The list of sources stands behind it: a model is to name them."""
    listed = footer(done.sources)
    lost = [*done.checks.out_of_range, *done.checks.unattributed]
    said = [
        *([f"Marks that lead to no page: {' '.join(lost)}"] if lost else []),
        *notices,
        *(["Sandbox: this answer is simulated."] if sandbox else []),
    ]
    told = {
        "answer": text,
        "model": model,
        "answered_by": answered_by or None,
        **found_of(done),
        "notices": list(notices),
        "sandbox": sandbox,
    }
    return ToolResult(text + appended(([listed] if listed else []) + said), told)


def models_text(models: Iterable[Model], default: str, tier: str) -> ToolResult:
    """The ids by mode, the default marked."""
    shown = list(models)
    lines = [f"Default model: {default}", f"Account type: {tier}"]
    for mode in dict.fromkeys(model.mode for model in shown):
        lines += ["", f"Mode {mode}:"]
        lines += [_line(model, default) for model in shown if model.mode == mode]
    entries = [
        {"id": model.id, "label": model.label, "mode": model.mode, "thinks": bool(model.thinking)}
        for model in shown
    ]
    return ToolResult("\n".join(lines), {"default": default, "account_type": tier, "models": entries})


def _line(model: Model, default: str) -> str:
    label = f" ({model.label})" if model.label else ""
    return f"- {model.id}{label}{', default' if model.id == default else ''}"


def _asked(arguments: Fields) -> Json:
    query = arguments.text("query", longest=LONGEST_QUERY)
    if query is None or not query.strip():
        raise arguments.refuse("query", "is required and must not be empty")
    body: Json = {"messages": [{"role": "user", "content": query}]}
    if arguments.given("language"):
        body["language"] = arguments.values["language"]
    return body


def _model(arguments: Fields, names: Mapping[str, str]) -> Json:
    """Nothing for the default, which the request then leaves open."""
    chosen = arguments.word("model", longest=LONGEST_NAME)
    if chosen is None or (chosen == DEFAULT and not names):
        return {}
    return {"model": names.get(chosen, chosen)}
