"""The asynchronous Sonar API over our runs: `/v1/async/sonar` and `/async/chat/completions` (SPEC 4.3).

Its jobs are runs, whatever door started them, under the same ids: the list has the caller's. Its errors are
the gateway's (`portal.wire.gateway`). There is no cancel and no delete here (perplexity-api §3).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from portal.api.paging import limit_of
from portal.api.replies import Answer, answer_json
from portal.api.routes import Call, KeyRoute, SwiftRoute
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, NotFound
from portal.wire.ids import parse_response_id
from research.api.starting import LARGEST_REQUEST, fields_in, read_soon, start
from research.protocol.answer import RunView, as_started, poll_again_after
from research.protocol.sonar import parse_job
from research.protocol.sonar_answer import build_job, build_jobs
from research.queries import Page, find_readable_run, list_runs
from research.services.views import summary_of, view_for, view_of


async def create(call: Call, who: Principal) -> Answer:
    body = await fields_in(call)
    request = await read_soon(call, partial(parse_job, body, call.headers))
    try:
        started = await start(call, who, request)
    except BadRequest as problem:
        if problem.param == "preset":
            problem.param = "request.reasoning_effort"  # what the caller chose it by
        raise
    view = view_of(started.run)
    if started.replayed:
        return _answer(view, {"Idempotent-Replayed": "true"})
    return _answer(as_started(view), {})


def retrieve(call: Call, who: Principal) -> Answer:
    run = find_readable_run(who, parse_response_id(call.parts["id"]))
    return _answer(view_for(who, run), {})


def list_all(call: Call, who: Principal) -> Answer:
    page = _page(call, who)
    return answer_json(build_jobs([summary_of(run) for run in page.runs], has_more=page.has_more))


def _answer(view: RunView, headers: Mapping[str, str]) -> Answer:
    wait = poll_again_after(view)
    hints = {} if wait is None else {"Retry-After": str(wait)}
    return answer_json(build_job(view), headers={**hints, **headers})


def _page(call: Call, who: Principal) -> Page:
    """What names no run of the caller is no token, whoever's it is."""
    token = call.query.get("next_token")
    after = parse_response_id(token) if token else None
    refused = BadRequest("next_token is none that this list has given", param="next_token")
    if token and after is None:
        raise refused
    try:
        return list_runs(who, limit_of(call), after)
    except NotFound:
        raise refused from None


RESEARCH = Scope.RESEARCH.value
routes = tuple(
    route
    for family in ("/v1/async/sonar", "/async/chat/completions")
    for route in (
        SwiftRoute("POST", family, RESEARCH, create, LARGEST_REQUEST),
        KeyRoute("GET", family, RESEARCH, list_all),
        KeyRoute("GET", f"{family}/{{id}}", RESEARCH, retrieve),
    )
)
