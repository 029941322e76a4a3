"""The doors of research: `/v1/agent…` and `/v1/responses…` (agent-api §1, SPEC 4.1-4.2).

Both families open the same runs. They differ in what they take (`/v1/responses` is shared with
chat) and in what a cancel answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from portal.api.lean import Answer, Call, KeyRoute, answer_json
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, not_found
from portal.wire.fields import Fields, fields_of
from portal.wire.ids import parse_response_id
from research.api.paging import limit_of
from research.models.runs import Door
from research.protocol.agent import parse_run_request
from research.protocol.answer import (
    RunView,
    as_started,
    build_cancel,
    build_list,
    build_response,
    poll_again_after,
)
from research.protocol.route import check_research
from research.queries import find_run, list_runs
from research.services.cancel import cancel_run
from research.services.start import start_run
from research.services.views import summary_of, view_of


def create_on_agent(call: Call, who: Principal) -> Answer:
    return _create(call, who, fields_of(call.json()))


def create_on_responses(call: Call, who: Principal) -> Answer:
    body = fields_of(call.json())
    check_research(body)
    return _create(call, who, body)


def retrieve(call: Call, who: Principal) -> Answer:
    if call.query.get("stream", "").lower() in ("true", "1"):
        raise BadRequest("streaming is not supported", param="stream")
    return _answer(view_of(find_run(who, _run_id(call))))


def cancel_on_agent(call: Call, who: Principal) -> Answer:
    _check_cancel_body(call)
    return answer_json(build_cancel(view_of(cancel_run(who, _run_id(call)))))


def cancel_on_responses(call: Call, who: Principal) -> Answer:
    """The OpenAI SDK reads a whole Response here, the Perplexity SDK two members (SPEC 10.2)."""
    _check_cancel_body(call)
    view = view_of(cancel_run(who, _run_id(call)))
    return answer_json(build_response(view) | build_cancel(view))


def list_all(call: Call, who: Principal) -> Answer:
    after = call.query.get("after")
    last = None if not after else parse_response_id(after)
    if after and last is None:
        raise not_found()
    page = list_runs(who, limit_of(call), last)
    return answer_json(build_list([summary_of(run) for run in page.runs], page.has_more))


def _create(call: Call, who: Principal, body: Fields) -> Answer:
    request = parse_run_request(body, call.headers)
    try:
        started = start_run(who, request, Door.REST)
    except BadRequest as problem:
        if problem.param == "preset" and body.given("effort"):
            problem.param = "effort"  # the name under which the caller gave it
        raise
    view = view_of(started.run)
    if started.replayed:
        return _answer(view, {"Idempotent-Replayed": "true"})
    return _answer(as_started(view))


def _answer(view: RunView, headers: Mapping[str, str] | None = None) -> Answer:
    wait = poll_again_after(view)
    hints = {} if wait is None else {"Retry-After": str(wait)}
    return answer_json(build_response(view), headers={**hints, **(headers or {})})


def _run_id(call: Call) -> UUID | None:
    """None for what is no id of ours, which then is answered like an unknown one."""
    return parse_response_id(call.parts["id"])


def _check_cancel_body(call: Call) -> None:
    """SDKs send nothing at all, others `{}` (agent-api §1)."""
    if call.body.strip():
        fields_of(call.json())


RESEARCH = Scope.RESEARCH.value
routes = (
    KeyRoute("POST", "/v1/agent", RESEARCH, create_on_agent),
    KeyRoute("GET", "/v1/agent", RESEARCH, list_all),
    KeyRoute("GET", "/v1/agent/{id}", RESEARCH, retrieve),
    KeyRoute("POST", "/v1/agent/{id}/cancel", RESEARCH, cancel_on_agent),
    KeyRoute("POST", "/v1/responses", RESEARCH, create_on_responses),
    KeyRoute("GET", "/v1/responses/{id}", RESEARCH, retrieve),
    KeyRoute("POST", "/v1/responses/{id}/cancel", RESEARCH, cancel_on_responses),
)
