"""The research tools as agents see them: names, limits, words, schemas (agent-api §9, mcp-server §5).

Presets are named by the portal's own table when the tools are listed. `start_research` takes the three
arguments that the seed knows, so that one idempotency key means the same over MCP and REST.
"""

from __future__ import annotations

from portal.wire.tools import Json, Tool, members, or_none, parameters

LONGEST_QUESTION = 20_000
LONGEST_KEY = 200
LONGEST_ID = 1_000
LIST_LIMIT = 20
LONGEST_LIST = 100
MOST_PAGES = 100_000
STATUSES = ("queued", "in_progress", "completed", "failed", "incomplete", "cancelled")
REPORT_URI = "research://{id}/report.md"

_ID: Json = {"type": "string", "description": "The run's id: resp_ and 32 hex digits."}
_STATUS: Json = {"type": "string", "enum": list(STATUSES)}
_TEXT: Json = {"type": "string"}
_TEXT_OR_NONE: Json = or_none("string")
_COUNT_OR_NONE: Json = or_none("integer")
_NEXT: Json = {
    "retry_after_seconds": {
        "type": "integer",
        "minimum": 0,
        "description": "Seconds to wait before the next look; 0 when there is nothing to wait for.",
    },
    "next_check_at": or_none("string", description="The same as a moment: UTC, ISO 8601."),
    "next_step": {"type": "string", "description": "What to do now."},
}
_SANDBOX: Json = {"type": "boolean", "description": "True: simulated, no research was made."}

_OF_SOME_RUNS: Json = {
    "sources": {
        "type": "array",
        "items": members(
            {"id": {"type": "integer"}, "title": _TEXT, "url": _TEXT, "provenance": _TEXT},
        ),
    },
    "checks": {"type": "object", "description": "Marks of the report that lead to no source, by kind."},
    "notices": {"type": "array", "items": _TEXT},
    "usage": {"type": "object"},
    "error": members({"code": _TEXT_OR_NONE, "message": _TEXT}),
    "incomplete_reason": _TEXT,
}
"""Page 1 of a report has sources, checks, notices and usage; a failed run has its error."""

_READING = members(
    {
        "id": _ID,
        "status": _STATUS,
        "preset": _TEXT,
        "page": _COUNT_OR_NONE,
        "page_count": _COUNT_OR_NONE,
        "next_page": _COUNT_OR_NONE,
        "text": or_none("string", description="This page of the report, in Markdown."),
        **_NEXT,
        "sandbox": _SANDBOX,
    },
    sometimes=_OF_SOME_RUNS,
)

START = Tool(
    name="start_research",
    title="Start a research run",
    description=(
        "Start deep research on a question: many searches, read pages, and one long report with sources."
        " It takes minutes, so this returns at once with an id and never with the answer: call"
        " get_research with that id when retry_after_seconds have passed. It costs credits, which come"
        " back when the run fails. Choose a new idempotency_key for each new question and repeat the same"
        " key when you repeat a call that got no answer: the same key and question are one run and one"
        " charge."
    ),
    parameters=parameters(
        {
            "question": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_QUESTION,
                "description": "What to find out. Longer and more precise questions get better reports.",
            },
            "preset": {
                "type": "string",
                "description": "How thorough: the name says how long it may take. Longer costs more.",
            },
            "idempotency_key": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_KEY,
                "description": "Any text of your own that names this one request.",
            },
        },
        required=("question", "idempotency_key"),
    ),
    result=members(
        {
            "id": _ID,
            "status": _STATUS,
            "preset": _TEXT,
            "credits_reserved": {"type": "number", "minimum": 0},
            **_NEXT,
            "sandbox": _SANDBOX,
        }
    ),
    idempotent=True,
    open_world=True,
)

GET = Tool(
    name="get_research",
    title="Read a research run",
    description=(
        "How a run stands and, once it is completed, its report page by page: ask for next_page until it"
        " is null. Page 1 also lists the sources. It never waits, costs nothing and may be repeated."
    ),
    parameters=parameters(
        {
            "id": _ID,
            "page": {"type": "integer", "minimum": 1, "default": 1, "description": "Page of the report."},
        },
        required=("id",),
    ),
    result=_READING,
    reads_only=True,
)
LIST = Tool(
    name="list_research",
    title="List research runs",
    description="Your runs, newest first: to find an id again, or to see what is under way.",
    parameters=parameters(
        {
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": LONGEST_LIST,
                "default": LIST_LIMIT,
                "description": "How many at most.",
            },
            "status": {**_STATUS, "description": "Only runs that stand so."},
            "after": {"type": "string", "description": "The last id of the page before."},
        }
    ),
    result=members(
        {
            "runs": {
                "type": "array",
                "items": members(
                    {
                        "id": _ID,
                        "status": _STATUS,
                        "preset": _TEXT,
                        "title": _TEXT,
                        "created_at": _TEXT,
                        "completed_at": _TEXT_OR_NONE,
                        "sandbox": _SANDBOX,
                    }
                ),
            },
            "has_more": {"type": "boolean"},
            "next_after": or_none("string", description="Pass it as after for the next page."),
        }
    ),
    reads_only=True,
)

CANCEL = Tool(
    name="cancel_research",
    title="Stop a research run",
    description=(
        "Stop a run that is under way. What it had reserved comes back. A run that has ended cannot be"
        " stopped."
    ),
    parameters=parameters({"id": _ID}, required=("id",)),
    result=members({"id": _ID, "status": {"type": "string", "const": "cancelling"}, "next_step": _TEXT}),
    destroys=True,
    idempotent=True,
)

RESEARCH = Tool(
    name="perplexity_research",
    title="Research a question",
    description=(
        "Deep research on a question with the portal's default preset. It waits up to 40 seconds; most"
        " research takes longer, and then this gives an id to call get_research with. It costs credits,"
        " and each call starts a new run: to be safe against repeated calls, use start_research."
    ),
    parameters=parameters(
        {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_QUESTION,
                "description": "What to find out.",
            },
            "language": {"type": "string", "description": "Language of the report, as in en-US."},
        },
        required=("query",),
    ),
    result=_READING,
    open_world=True,
)
