"""The doors of research: `/v1/agent…`, and what `/v1/responses…` answers of runs (agent-api §1, SPEC 4.1).

Both families open the same runs, streams included. They differ in what a cancel answers. Which
requests at `/v1/responses` are research is for the front door (`research.api.front`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from uuid import UUID

from portal.api.paging import limit_of
from portal.api.replay import WHOLE, starting_after
from portal.api.replies import Answer, Reply, answer_json
from portal.api.routes import Call, KeyRoute, SwiftRoute
from portal.api.streaming import Stream
from portal.api.threads import run_in_database
from portal.live.news import News
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, NotFound
from portal.wire.fields import Fields, fields_of
from portal.wire.ids import parse_response_id
from proxy.protocol.response_object import deleted
from proxy.protocol.responses_stream import interrupted
from research.api.starting import LARGEST_REQUEST, fields_in, read_soon, start
from research.protocol.agent import parse_run_request
from research.protocol.answer import (
    RunView,
    as_started,
    build_cancel,
    build_list,
    build_response,
    poll_again_after,
)
from research.queries import find_readable_run, list_runs
from research.services.cancel import cancel_run
from research.services.delete import delete_run
from research.services.run_tail import events_written, tail
from research.services.views import summary_of, view_for, view_of

RESEARCH = Scope.RESEARCH.value
_news = News(events_written, run_in_database)


async def create(call: Call, who: Principal) -> Reply:
    return await create_of(await fields_in(call), call, who)


async def create_of(body: Fields, call: Call, who: Principal) -> Reply:
    """A run: told at once as queued, or as a stream of all that happens to it."""
    streams = body.flag("stream")
    request = await read_soon(call, partial(parse_run_request, body, call.headers))
    try:
        started = await start(call, who, request)
    except BadRequest as problem:
        if problem.param == "preset" and body.given("effort"):
            problem.param = "effort"  # the name under which the caller gave it
        raise
    view = view_of(started.run)
    replayed = {"Idempotent-Replayed": "true"} if started.replayed else {}
    if streams:
        return _streamed(view, who, headers=replayed)
    return _answer(view if started.replayed else as_started(view), replayed)


def retrieve(call: Call, who: Principal) -> Reply:
    after = starting_after(call)
    view = view_for(who, find_readable_run(who, run_id_of(call)))
    return _answer(view) if after is None else _streamed(view, who, after=after)


def cancel_on_agent(call: Call, who: Principal) -> Answer:
    check_cancel_body(call)
    return answer_json(build_cancel(view_of(cancel_run(who, run_id_of(call)))))


def cancel_on_responses(call: Call, who: Principal) -> Answer:
    """The OpenAI SDK reads a whole Response here, the Perplexity SDK two members (SPEC 10.2)."""
    check_cancel_body(call)
    view = view_of(cancel_run(who, run_id_of(call)))
    return answer_json(build_response(view) | build_cancel(view))


def delete(call: Call, who: Principal) -> Answer:
    delete_run(who, run_id_of(call))
    return answer_json(deleted(call.parts["id"]))


def list_all(call: Call, who: Principal) -> Answer:
    after = call.query.get("after")
    last = None if not after else parse_response_id(after)
    if after and last is None:
        raise NotFound("No response with this id exists.", param="after", code="not_found")
    page = list_runs(who, limit_of(call), last)
    return answer_json(build_list([summary_of(run) for run in page.runs], page.has_more))


def run_id_of(call: Call) -> UUID | None:
    """None for what is no id of ours, which then is answered like an unknown one."""
    return parse_response_id(call.parts["id"])


def check_cancel_body(call: Call) -> None:
    """SDKs send nothing at all, others `{}` (agent-api §1)."""
    if call.body.strip():
        fields_of(call.json())


def _answer(view: RunView, headers: Mapping[str, str] | None = None) -> Answer:
    wait = poll_again_after(view)
    hints = {} if wait is None else {"Retry-After": str(wait)}
    return answer_json(build_response(view), headers={**hints, **(headers or {})})


def _streamed(
    view: RunView, who: Principal, *, after: int = WHOLE, headers: Mapping[str, str] | None = None
) -> Stream:
    pieces = partial(tail, view, _news, who, after=after)
    return Stream(pieces, interrupted, headers or {})


routes = (
    SwiftRoute("POST", "/v1/agent", RESEARCH, create, LARGEST_REQUEST),
    KeyRoute("GET", "/v1/agent", RESEARCH, list_all),
    KeyRoute("GET", "/v1/agent/{id}", RESEARCH, retrieve),
    KeyRoute("POST", "/v1/agent/{id}/cancel", RESEARCH, cancel_on_agent),
)
