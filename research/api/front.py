"""The front door of `/v1/responses…`: research and chat behind one address (SPEC 4.2).

A new request is sent by what it says (`research.protocol.route`), an id to whichever of the two made
it. What a key's scopes do not open does not exist for it. Fixed names are routes of their own, so
that none is taken for an id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from portal.api.auth import require_scope
from portal.api.paging import is_backwards, limit_of
from portal.api.replies import Answer, Reply, answer_json
from portal.api.routes import Call, KeyRoute, SwiftRoute
from portal.api.threads import run_in_database
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, Forbidden, NotFound, no_response
from portal.wire.fields import fields_of
from proxy.api import responses as chat
from proxy.protocol.response_input import count_input_tokens
from proxy.protocol.response_object import item_id, list_page
from proxy.services.elsewhere import Elsewhere
from research.api import doors
from research.api.starting import LARGEST_REQUEST, fields_in
from research.models.runs import Run
from research.protocol.route import engine_of
from research.queries import find_readable_run
from research.services.earlier import said_in_run, shown_in_run
from research.services.start import has_key

RESEARCH, CHAT = Scope.RESEARCH.value, Scope.CHAT.value
EITHER = ""
"""The scope of doors that look for themselves which one they need."""
ELSEWHERE = Elsewhere(said_in_run, shown_in_run, has_key)
ByKey = Callable[[Call, Principal], Reply]


async def create(call: Call, who: Principal) -> Reply:
    body = await fields_in(call)
    if engine_of(body) == "chat":
        call.presence.watch()
        return await run_in_database(partial(chat.create, body, call.headers, who, ELSEWHERE))
    require_scope(who, RESEARCH)
    return await doors.create_of(body, call, who)


def either(by_research: ByKey, by_chat: ByKey) -> ByKey:
    """A door for ids: a run's, where the caller has one of this id, else a chat's."""

    def door(call: Call, who: Principal) -> Reply:
        _require_either(who)
        if RESEARCH in who.scopes:
            try:
                return by_research(call, who)
            except NotFound:
                pass  # then it may be a chat's
        if CHAT in who.scopes:
            return by_chat(call, who)
        raise no_response()

    return door


def list_input(call: Call, who: Principal) -> Answer:
    """The one item of a run: its question (openai-compat §3.7)."""
    limit_of(call)
    is_backwards(call)
    run = find_readable_run(who, doors.run_id_of(call))
    item = _question(run)
    for name in ("after", "before"):
        if call.query.get(name, item["id"]) != item["id"]:
            raise BadRequest(f"{name} must be the id of an item of this response", param=name)
    is_past = "after" in call.query or "before" in call.query
    return answer_json(list_page([] if is_past else [item], has_more=False))


def count_tokens(call: Call, who: Principal) -> Answer:
    """An estimate, as all our counts are: four characters a token."""
    _require_either(who)
    tokens = count_input_tokens(fields_of(call.json()))
    return answer_json({"object": "response.input_tokens", "input_tokens": tokens})


def compact(call: Call, who: Principal) -> Answer:
    _require_either(who)
    raise BadRequest(
        "Conversations cannot be compacted here: go on by previous_response_id, or send a shorter input."
    )


def _question(run: Run) -> dict[str, object]:
    return {
        "id": item_id("msg_", run.public_id, "in.0"),
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": run.question}],
    }


def _require_either(who: Principal) -> None:
    if not {RESEARCH, CHAT} & who.scopes:
        raise Forbidden(f"This key lacks the scopes '{RESEARCH}' and '{CHAT}': one of them is needed here.")


routes = (
    SwiftRoute("POST", "/v1/responses", EITHER, create, LARGEST_REQUEST),
    KeyRoute("POST", "/v1/responses/compact", EITHER, compact),
    KeyRoute("POST", "/v1/responses/input_tokens", EITHER, count_tokens),
    KeyRoute("GET", "/v1/responses/{id}", EITHER, either(doors.retrieve, chat.retrieve)),
    KeyRoute("DELETE", "/v1/responses/{id}", EITHER, either(doors.delete, chat.delete)),
    KeyRoute("POST", "/v1/responses/{id}/cancel", EITHER, either(doors.cancel_on_responses, chat.cancel)),
    KeyRoute("GET", "/v1/responses/{id}/input_items", EITHER, either(list_input, chat.input_items)),
)
