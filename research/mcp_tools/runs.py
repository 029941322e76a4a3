"""The four research tools (agent-api §9): thin doors over the services that REST uses."""

from __future__ import annotations

from functools import partial

from django.utils import timezone

from portal.api.threads import run_in_database
from portal.api.tools import ToolCall, ToolDoor
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, NotFound, not_found
from portal.wire.fields import Fields
from portal.wire.ids import parse_response_id
from portal.wire.tools import ToolResult
from research.mcp_tools.asking import start_from
from research.mcp_tools.waiting import look
from research.protocol import mcp_answers, mcp_tools
from research.protocol.mcp_tools import LIST_LIMIT, LONGEST_ID, LONGEST_LIST, LONGEST_QUESTION, MOST_PAGES
from research.queries import list_runs
from research.services.cancel import cancel_run
from research.services.views import summary_of, view_of


async def start(call: ToolCall) -> ToolResult:
    return await run_in_database(partial(_start, call.who, call.arguments))


async def get(call: ToolCall) -> ToolResult:
    page = call.arguments.whole("page", least=1, most=MOST_PAGES) or 1
    found = await look(call.who, _id(call.arguments))
    now = timezone.now()
    return mcp_answers.reading(found.view, page, mcp_answers.next_wait(found.view, found.budget, now), now)


async def list_all(call: ToolCall) -> ToolResult:
    return await run_in_database(partial(_list, call.who, call.arguments))


async def cancel(call: ToolCall) -> ToolResult:
    return await run_in_database(partial(_cancel, call.who, call.arguments))


async def read_report(who: Principal, public_id: str) -> str:
    """The resource `research://{id}/report.md`. Raises NotFound where there is no report, too."""
    text = mcp_answers.report_markdown((await look(who, public_id)).view)
    if text is None:
        raise not_found()
    return text


def _start(who: Principal, arguments: Fields) -> ToolResult:
    """`question` is REST's `input`: the same words are the same request (agent-api §6.2)."""
    question = arguments.word("question", longest=LONGEST_QUESTION)
    if question is None:
        raise arguments.refuse("question", "is required")
    if not arguments.given("idempotency_key"):
        raise arguments.refuse("idempotency_key", "is required: choose any text that names this one request")
    named = {name: arguments.values[name] for name in ("preset", "idempotency_key") if arguments.given(name)}
    started = start_from(who, {"input": question, **named}, {})
    view, now = view_of(started.run), timezone.now()
    wait = 0 if view.is_terminal else mcp_answers.first_wait(started.run.time_budget)
    return mcp_answers.handle(view, started.run.price, wait, now)


def _list(who: Principal, arguments: Fields) -> ToolResult:
    limit = arguments.whole("limit", least=1, most=LONGEST_LIST) or LIST_LIMIT
    status = arguments.choice("status", mcp_tools.STATUSES)
    after = arguments.word("after", longest=LONGEST_ID)
    last = None if after is None else parse_response_id(after)
    if after is not None and last is None:
        raise not_found()
    page = list_runs(who, limit, last, None if status is None else [status])
    return mcp_answers.listing([summary_of(run) for run in page.runs], page.has_more)


def _cancel(who: Principal, arguments: Fields) -> ToolResult:
    try:
        return mcp_answers.cancelling(view_of(cancel_run(who, parse_response_id(_id(arguments)))))
    except NotFound:
        raise
    except BadRequest:
        raise BadRequest(
            "The run has ended already: there is nothing to stop. Call get_research to see how it ended."
        ) from None


def _id(arguments: Fields) -> str:
    found = arguments.word("id", longest=LONGEST_ID)
    if found is None:
        raise arguments.refuse("id", "is required: it is what start_research gave you")
    return found


RESEARCH = Scope.RESEARCH.value
doors = (
    ToolDoor(mcp_tools.START, RESEARCH, start),
    ToolDoor(mcp_tools.GET, RESEARCH, get),
    ToolDoor(mcp_tools.LIST, RESEARCH, list_all),
    ToolDoor(mcp_tools.CANCEL, RESEARCH, cancel),
)
