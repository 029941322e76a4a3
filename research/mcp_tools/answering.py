"""`perplexity_research`: a run that is waited for as long as a call may last (SPEC 10.26)."""

from __future__ import annotations

from functools import partial

from django.utils import timezone

from portal.api.threads import run_in_database
from portal.api.tools import ToolCall, ToolDoor
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.fields import Fields
from portal.wire.tools import ToolResult
from research.mcp_tools.asking import start_from
from research.mcp_tools.waiting import look_until_end
from research.models.runs import Run
from research.protocol import mcp_answers
from research.protocol.mcp_tools import LONGEST_QUESTION, RESEARCH

WAIT_SECONDS = 40.0


async def research(call: ToolCall) -> ToolResult:
    run = await run_in_database(partial(_start, call.who, call.arguments))
    found = await look_until_end(call.who, run.public_id, WAIT_SECONDS, call.tell)
    now = timezone.now()
    wait = mcp_answers.next_wait(found.view, found.budget, now)
    return mcp_answers.reading(found.view, 1, wait, now)


def _start(who: Principal, arguments: Fields) -> Run:
    query = arguments.word("query", longest=LONGEST_QUESTION)
    if query is None:
        raise arguments.refuse("query", "is required")
    body: dict[str, object] = {"input": query}
    if arguments.given("language"):
        body["language_preference"] = arguments.values["language"]
    return start_from(who, body, {"language_preference": "language"}).run


doors = (ToolDoor(RESEARCH, Scope.RESEARCH.value, research),)
