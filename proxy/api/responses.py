"""Chat through `/v1/responses` (proxy-contract §8, openai-compat §3).

The front door of `/v1/responses` is research's, which may use what is proxy's: it hands over the
requests that are no research, and the ids that no run has. So this file has no routes of its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from uuid import UUID

from django.conf import settings

from portal.api.auth import require_scope
from portal.api.paging import is_backwards, limit_of
from portal.api.replay import WHOLE, starting_after
from portal.api.replies import Answer, Later, Reply, answer_json
from portal.api.routes import Call
from portal.api.streaming import Stream
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, Problem
from portal.wire.fields import Fields
from portal.wire.idempotency import REPLAYED
from portal.wire.ids import parse_response_id, response_id
from proxy.models.responses import ChatResponse
from proxy.protocol.delta import Done
from proxy.protocol.functions import EXPERIMENTAL, EXPERIMENTAL_HEADER
from proxy.protocol.response_object import deleted, list_page
from proxy.protocol.response_once import read_once
from proxy.protocol.responses import parse_responses
from proxy.protocol.responses_stream import Event, interrupted
from proxy.queries import find_response
from proxy.services.chat import ChatPlan, Question
from proxy.services.elsewhere import NOWHERE, Elsewhere
from proxy.services.relay import Relay
from proxy.services.response_making import Making
from proxy.services.response_once import answer_once
from proxy.services.response_rows import can_be_resumed, is_streamed
from proxy.services.response_tail import tail
from proxy.services.responses import (
    Opened,
    Queued,
    Terms,
    cancel_response,
    delete_response,
    open_response,
    page_of_input,
    queue_response,
)
from proxy.services.telling import headers_of

NO_HEADERS: Mapping[str, str] = {}


def create(body: Fields, headers: Mapping[str, str], who: Principal, elsewhere: Elsewhere = NOWHERE) -> Reply:
    """Plain, streamed, or in the background; under an idempotency key what was made before is found again."""
    require_scope(who, Scope.CHAT.value)
    request = parse_responses(body.values, default_model=settings.DEFAULT_MODEL)
    terms = Terms(read_once(body, headers), elsewhere)
    make: Callable[..., Queued | Opened] = queue_response if request.background else open_response
    made = answer_once(who, terms.once, partial(make, who, request, terms))
    if isinstance(made, ChatResponse):
        return _as_it_is(made, WHOLE if request.stream else None, REPLAYED)
    if isinstance(made, Queued):
        return _queued(made, streams=request.stream)
    return _opened(made, streams=request.stream)


def _queued(queued: Queued, *, streams: bool) -> Reply:
    """A stream follows what the worker writes."""
    headers = _headers(queued.question, None)
    if streams:
        return Stream(partial(tail, queued.row.pk), interrupted, headers)
    return answer_json(queued.row.body, headers=headers)


def _opened(opened: Opened, *, streams: bool) -> Reply:
    headers = _headers(opened.question, opened.plan)
    relay = _relay(opened, streams=streams)
    if streams:
        last_words = partial(_last_words, opened.making)
        return Stream(partial(_pieces, relay, opened.making), last_words, headers, relay.give_up)
    return Later(partial(_whole, relay, opened.making), headers, relay.give_up)


def retrieve(call: Call, who: Principal) -> Reply:
    """The object as it is now, or with `stream=true` its events: the same again, then those to come."""
    after = starting_after(call)
    return _as_it_is(_find(call, who), after)


def _as_it_is(row: ChatResponse, after: int | None, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    """`after`: the number of the event whose followers are wanted; None wants the object."""
    if after is None:
        return answer_json(row.body, headers=headers)
    if not is_streamed(row):
        told = "Only a response that was made with stream or background can be streamed again."
        raise BadRequest(told, param="stream")
    if after != WHOLE and not can_be_resumed(row):
        told = "Its stream broke off, and was made anew: read it from its beginning, without starting_after."
        raise BadRequest(told, param="starting_after")
    return Stream(partial(tail, row.pk, after), interrupted, headers)


def cancel(call: Call, who: Principal) -> Answer:
    return answer_json(cancel_response(who, _find(call, who)).body)


def delete(call: Call, who: Principal) -> Answer:
    row = _find(call, who)
    delete_response(who, row)
    return answer_json(deleted(response_id(row.pk)))


def input_items(call: Call, who: Principal) -> Answer:
    """A page of what was asked, the last item first unless `order=asc`."""
    row = _find(call, who)
    items, has_more = page_of_input(
        row,
        limit_of(call),
        backwards=is_backwards(call),
        after=call.query.get("after") or None,
        before=call.query.get("before") or None,
    )
    return answer_json(list_page(items, has_more=has_more))


def _find(call: Call, who: Principal) -> ChatResponse:
    row = find_response(who, _id(call))
    require_scope(who, Scope.CHAT.value)
    return row


def _id(call: Call) -> UUID | None:
    return parse_response_id(call.parts["id"])


def _relay(opened: Opened, *, streams: bool) -> Relay:
    making = opened.making
    streams = streams and making.judge is None
    return Relay(
        opened.question, opened.plan, streams=streams, take=opened.take, ending=making, judge=making.judge
    )


async def _pieces(relay: Relay, making: Making) -> AsyncGenerator[bytes, None]:
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            if relay.plan and isinstance(deltas[-1], Done):
                events = making.end(relay.plan, deltas, relay.outcome, relay.settled)
            else:
                events = making.feed(deltas)
            if events:
                yield _encoded(events)


async def _whole(relay: Relay, making: Making) -> Answer:
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            if relay.plan and isinstance(deltas[-1], Done):
                making.end(relay.plan, deltas, relay.outcome, relay.settled)
                return answer_json(making.stream.response)
            making.feed(deltas)
    raise RuntimeError("an answer without an end")


def _last_words(making: Making, problem: Problem) -> bytes:
    return _encoded(making.last_events(problem))


def _encoded(events: Iterable[Event]) -> bytes:
    return b"".join(event.encode() for event in events)


def _headers(question: Question, plan: ChatPlan | None) -> Mapping[str, str]:
    headers = headers_of(question, plan)
    return {**headers, EXPERIMENTAL_HEADER: EXPERIMENTAL} if question.request.bridge else headers
