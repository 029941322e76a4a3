"""What a response goes on from: an earlier one, or a conversation (proxy-contract §8.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from portal.services.principal import Principal
from portal.wire.errors import BadRequest, NotFound
from portal.wire.ids import parse_response_id, response_id
from proxy.models.responses import ChatResponse
from proxy.protocol.chat_messages import ChatMessage
from proxy.protocol.conversation import Role
from proxy.protocol.responses import ResponsesRequest
from proxy.queries import visible_responses
from proxy.services import conversations

PARAM = "previous_response_id"


@dataclass(frozen=True, slots=True)
class History:
    """`previous` is the id of the response before, "" without one."""

    messages: tuple[ChatMessage, ...] = ()
    previous: str = ""


def history_for(who: Principal, request: ResponsesRequest) -> History:
    """Raises NotFound for an unknown response, BadRequest for one that did not complete."""
    if request.previous_response_id:
        return _chain(who, request.previous_response_id)
    found = conversations.find(who, request.conversation) if request.conversation else None
    if found is None:
        return History()
    last = found.last_response
    return History(conversations.history_of(found), response_id(last) if last else "")


def _chain(who: Principal, previous: str) -> History:
    wanted = parse_response_id(previous)
    row = visible_responses(who).filter(pk=wanted).first() if wanted else None
    if row is None:
        raise NotFound("No response with this id exists.", param=PARAM, code="not_found")
    if row.status != ChatResponse.Status.COMPLETED:
        raise BadRequest(f"The previous response is {row.status}: only a completed one goes on.", param=PARAM)
    messages = tuple(ChatMessage(cast(Role, role), text) for role, text in row.said)
    return History(messages, previous)
