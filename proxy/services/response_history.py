"""What a response goes on from: an earlier one, or a conversation (proxy-contract §8.4).

What no chat made can be gone on from too: whoever knows of such answers says what was said in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from portal.services.principal import Principal
from portal.wire.errors import BadRequest, NotFound
from portal.wire.ids import parse_response_id, response_id
from proxy.models.responses import ChatResponse
from proxy.protocol.response_functions import Past, from_said, functions_of, turns_of
from proxy.protocol.responses import ResponsesRequest
from proxy.queries import visible_responses
from proxy.services import conversations
from proxy.services.attachments import Enclosure, attached_of
from proxy.services.elsewhere import NOWHERE, Elsewhere

PARAM = "previous_response_id"


@dataclass(frozen=True, slots=True)
class History:
    """`previous` is the id of the response before, "" without one; `attached` what its talk brought."""

    past: Past = field(default_factory=Past)
    previous: str = ""
    attached: tuple[Enclosure, ...] = ()


def history_for(who: Principal, request: ResponsesRequest, elsewhere: Elsewhere = NOWHERE) -> History:
    """Raises NotFound for an unknown response, BadRequest for one that did not complete."""
    if request.previous_response_id:
        return _chain(who, request.previous_response_id, elsewhere)
    found = conversations.find(who, request.conversation) if request.conversation else None
    if found is None:
        return History()
    past = turns_of(conversations.items_of(found))
    if found.last_response is None:
        return History(Past(past))
    last = visible_responses(who).filter(pk=found.last_response).first()
    functions = functions_of(last.body["tools"]) if last else ()
    attached = attached_of(last.pk) if last else ()
    return History(Past(past, functions), response_id(found.last_response), attached)


def _chain(who: Principal, previous: str, elsewhere: Elsewhere) -> History:
    wanted = parse_response_id(previous)
    row = visible_responses(who).filter(pk=wanted).first() if wanted else None
    if row is None:
        said = elsewhere.said(who, wanted) if wanted else None
        if wanted and said is not None:
            return History(Past(from_said(said)), previous, elsewhere.attached(wanted))
        raise NotFound("No response with this id exists.", param=PARAM, code="not_found")
    if row.status != ChatResponse.Status.COMPLETED:
        raise BadRequest(f"The previous response is {row.status}: only a completed one goes on.", param=PARAM)
    past = Past(from_said(row.said), functions_of(row.body["tools"]))
    return History(past, previous, attached_of(row.pk))
