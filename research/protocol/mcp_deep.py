"""The three `pplx_deep_research_*` tools in words and texts (mcp-deep-research): jobs in, text out.

They are the same whoever answers: the portal over its own runs, or the stdio command straight from
Perplexity's API. What a job is called by is told by whoever made it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from portal.wire.fields import Fields
from portal.wire.tools import Json, Tool, ToolResult, parameters, refused
from research.protocol.agent import SEARCH_MODES
from research.protocol.filters import RECENCIES
from research.protocol.sonar import DEFAULT_EFFORT, EFFORTS

STATUSES = ("CREATED", "IN_PROGRESS", "COMPLETED", "FAILED")
MOST_DOMAINS = 10
LONGEST_WAIT = 40.0
LIST_LIMIT = 20
LONGEST_LIST = 100
LONGEST_ID = 1_000
RULE = "---"
_THINK, _END_OF_THINK = "<think>", "</think>"
_URL = re.compile(r"https?://[^\s)\]\"'<>]+")

START = Tool(
    name="pplx_deep_research_start",
    title="Start deep research",
    description=(
        "Submit a deep research job and return at once with its job id; the report takes about 2 to 20"
        " minutes. Then call pplx_deep_research_check with that id. Each call starts, and costs, a new job."
    ),
    parameters=parameters(
        {
            "query": {
                "type": "string",
                "minLength": 1,
                "description": "What to research. Longer and more structured prompts give better reports.",
            },
            "reasoning_effort": {
                "type": "string",
                "enum": list(EFFORTS),
                "default": DEFAULT_EFFORT,
                "description": "high makes many more searches and takes considerably longer.",
            },
            "search_mode": {
                "type": "string",
                "enum": list(SEARCH_MODES),
                "description": "academic: peer-reviewed sources. sec: filings of US companies.",
            },
            "search_recency_filter": {
                "type": "string",
                "enum": list(RECENCIES),
                "description": "Only sources of this last span of time.",
            },
            "search_domain_filter": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": MOST_DOMAINS,
                "description": "Only these domains, or without them when each begins with '-'.",
            },
            "search_after_date_filter": {
                "type": "string",
                "description": "Only sources published after this day, MM/DD/YYYY.",
            },
            "system_prompt": {"type": "string", "description": "Tone and structure of the report."},
        },
        required=("query",),
    ),
    open_world=True,
)
CHECK = Tool(
    name="pplx_deep_research_check",
    title="Check deep research",
    description=(
        "How a deep research job stands; once it is completed, the whole report with its sources and cost."
        " wait_seconds holds the call until the job ends, for fewer round trips."
    ),
    parameters=parameters(
        {
            "job_id": {"type": "string", "minLength": 1, "description": "From pplx_deep_research_start."},
            "wait_seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": LONGEST_WAIT,
                "default": 0,
                "description": "Seconds to wait for the end before answering.",
            },
            "strip_thinking": {
                "type": "boolean",
                "default": True,
                "description": "Leave out the model's <think> blocks.",
            },
        },
        required=("job_id",),
    ),
    reads_only=True,
)
LIST = Tool(
    name="pplx_deep_research_list",
    title="List deep research",
    description="Recent deep research jobs, newest first: to find an id again or to see what is running.",
    parameters=parameters(
        {
            "status": {"type": "string", "enum": list(STATUSES), "description": "Only jobs that stand so."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": LONGEST_LIST,
                "default": LIST_LIMIT,
                "description": "How many at most.",
            },
        }
    ),
    reads_only=True,
)


@dataclass(frozen=True, slots=True)
class JobSource:
    url: str
    title: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its maker knows it. `text` is the report with its think-blocks; None when there is none.

    `cost` is in US dollars. `cut_short` says why a report that is there is not whole, `notes` whatever
    else a reader must know.
    """

    id: str
    status: str
    model: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    text: str | None = None
    search_results: tuple[JobSource, ...] = ()
    citations: tuple[str, ...] = ()
    queries: int | None = None
    cost: Decimal | None = None
    error: str = ""
    cut_short: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """The arguments of a check, read."""

    job_id: str
    wait_seconds: float
    strip_thinking: bool


def read_start(arguments: Fields) -> tuple[str, str, Json]:
    """(query, effort, the other arguments that are given). Raises BadRequest that names the argument."""
    query = arguments.text("query", longest=100_000)
    if query is None or not query.strip():
        raise arguments.refuse("query", "is required and must not be empty")
    effort = arguments.choice("reasoning_effort", EFFORTS) or DEFAULT_EFFORT
    arguments.items("search_domain_filter", most=MOST_DOMAINS)
    names = (
        "search_mode",
        "search_recency_filter",
        "search_domain_filter",
        "search_after_date_filter",
        "system_prompt",
    )
    return query.strip(), effort, {name: arguments.values[name] for name in names if arguments.given(name)}


def read_check(arguments: Fields) -> Check:
    """`wait_seconds` out of range is brought into it, and what is no number is 0 (§2)."""
    job_id = arguments.word("job_id", longest=LONGEST_ID)
    if job_id is None:
        raise arguments.refuse("job_id", "is required: it is what pplx_deep_research_start gave you")
    strip = arguments.flag("strip_thinking")
    return Check(job_id, _wait(arguments.values.get("wait_seconds")), strip is not False)


def read_list(arguments: Fields) -> tuple[str | None, int]:
    """(status, limit)."""
    limit = arguments.whole("limit", least=1, most=LONGEST_LIST) or LIST_LIMIT
    return arguments.choice("status", STATUSES), limit


def started_text(job: Job, effort: str) -> ToolResult:
    lines = (
        "Deep research submitted.",
        "",
        f"Job id: {job.id}",
        f"Model: {job.model}",
        f"Status: {job.status}",
        f"Effort: {effort}",
        *job.notes,
        "",
        "It is expected to take 2 to 20 minutes. Next, call pplx_deep_research_check with"
        f' {{"job_id": "{job.id}", "wait_seconds": 40}}, and again for as long as it runs.',
        "The result can be fetched for at least 7 days, from another conversation too.",
    )
    return ToolResult("\n".join(lines))


def checked_text(job: Job, now: datetime, *, strip_thinking: bool) -> ToolResult:
    """A job that runs, was completed, or failed; the last is an error."""
    if job.status == "COMPLETED":
        return ToolResult(_completed(job, strip_thinking=strip_thinking))
    if job.status == "FAILED":
        return _failed(job)
    since = job.started_at or job.created_at
    lines = [f"Job {job.id} is {job.status}."]
    if since is not None:
        lines.append(f"Elapsed: {elapsed(since, now)}")
    lines += [*job.notes, _call_again(job.id)]
    return ToolResult("\n".join(lines))


def listed_text(jobs: Sequence[Job], status: str | None) -> ToolResult:
    if not jobs:
        which = f" with the status {status}" if status else ""
        hint = "" if status else " Start one with pplx_deep_research_start."
        return ToolResult(f"There are no deep research jobs{which}.{hint}")
    count = "1 job" if len(jobs) == 1 else f"{len(jobs)} jobs"
    rows = [f"| {job.id} | {job.status} | {_cell(job.model)} | {_minute(job.created_at)} |" for job in jobs]
    lines = (
        f"{count}, newest first:",
        "",
        "| job_id | status | model | created (UTC) |",
        "|---|---|---|---|",
        *rows,
        "",
        "Fetch one with pplx_deep_research_check and its job_id.",
    )
    return ToolResult("\n".join(lines))


def without_thinking(text: str) -> str:
    """Every closed think-block removed, then trimmed; one that is not closed stays (§2)."""
    kept, at = [], 0
    while (begin := text.find(_THINK, at)) >= 0 and (end := text.find(_END_OF_THINK, begin)) >= 0:
        kept.append(text[at:begin])
        at = end + len(_END_OF_THINK)
    return "".join((*kept, text[at:])).strip()


def recovered_urls(text: str) -> list[str]:
    """The addresses in a report, each once, in the order in which they appear."""
    return list(dict.fromkeys(found.rstrip(".,;") for found in _URL.findall(text)))


def elapsed(since: datetime, until: datetime) -> str:
    minutes, seconds = divmod(max(int((until - since).total_seconds()), 0), 60)
    return f"{minutes}m {seconds}s"


def _completed(job: Job, *, strip_thinking: bool) -> str:
    text = job.text or ""
    shown = without_thinking(text) if strip_thinking else text
    head = ["# Deep research result", "", f"Job: {job.id}"]
    if job.model:
        head.append(f"Model: {job.model}")
    since = job.started_at or job.created_at
    if since is not None and job.completed_at is not None:
        head.append(f"Elapsed: {elapsed(since, job.completed_at)}")
    if job.queries is not None:
        head.append(f"Search queries: {job.queries}")
    if job.cost is not None:
        head.append(f"Cost: ${job.cost:.4f}")
    if job.cut_short:
        head.append(f"Warning: the report is cut short ({job.cut_short}); it may lack its end.")
    body = shown if shown.strip() else "(empty response body)"
    return "\n".join([*head, *job.notes, "", RULE, "", body, "", RULE, "", _sources(job, shown)])


def _sources(job: Job, shown: str) -> str:
    """The first of three lists that has anything, else a plain word (§2)."""
    if job.search_results:
        rows = [_source(number, source) for number, source in enumerate(job.search_results, 1)]
        return "\n".join(["## Sources", "", *rows])
    if job.citations:
        return "\n".join(["## Sources", "", *(f"[{n}] {url}" for n, url in enumerate(job.citations, 1))])
    urls = recovered_urls(without_thinking(shown))
    if urls:
        note = (
            "The upstream returned an empty list of citations. These addresses were recovered from the"
            " report text: nobody has checked that they support it."
        )
        heading = "## Sources (recovered from the report text)"
        return "\n".join([heading, "", note, "", *(f"[{n}] {url}" for n, url in enumerate(urls, 1))])
    return (
        "## Sources\n\nNo sources were returned, and the report names no address: nothing in it is"
        " attributed."
    )


def _source(number: int, source: JobSource) -> str:
    date = f" ({source.date})" if source.date else ""
    if not source.url:
        return f"[{number}] {source.title}{date}"
    return f"[{number}] [{source.title or source.url}]({source.url}){date}"


def _failed(job: Job) -> ToolResult:
    reason = job.error or "(no error message given)"
    return refused(
        f"job {job.id} failed: {reason} Start a narrower job, or one with a lower reasoning_effort.",
        code="research_failed",
    )


def _call_again(job_id: str) -> str:
    return (
        f'Call pplx_deep_research_check again with {{"job_id": "{job_id}", "wait_seconds": 40}}. Do not start'
        " it anew."
    )


def _wait(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0.0
    return float(min(max(value, 0), LONGEST_WAIT))


def _minute(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if moment else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())
