"""`POST /v1/chat/completions` (proxy-contract §4, openai-compat §2), streamed and plain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from django.conf import settings

from portal.api.intake import LARGEST_BODY
from portal.api.replies import Answer, Later, Reply
from portal.api.routes import Call, SwiftRoute
from portal.api.streaming import Stream
from portal.models.keys import Scope
from portal.services.principal import Principal
from proxy.protocol import chat_functions
from proxy.protocol.attachments import LARGEST_INLINE
from proxy.protocol.chat import ChatRequest, parse_chat
from proxy.protocol.chat_stream import ChatFold, ChatHead, ChatStream, Closing, error_frame
from proxy.protocol.delta import Done
from proxy.protocol.functions import EXPERIMENTAL, EXPERIMENTAL_HEADER
from proxy.services.ahead import open_ahead, while_there
from proxy.services.bridge import Judge
from proxy.services.chat import ChatPlan, Question, prepare_chat
from proxy.services.relay import Relay
from proxy.services.telling import footer_of, headers_of, sonde_of
from proxy.services.threads import in_thread
from proxy.services.together import Opening, open_alone

DOOR = "api"
AT_ONCE = 64 * 1024
"""Bytes of a request that is read on the event loop, and opened in a round: longer ones would hold the
others up."""
LARGEST_REQUEST = LARGEST_BODY + LARGEST_INLINE
"""Bytes: what is attached comes as base64."""


async def complete(call: Call, who: Principal) -> Reply:
    """Lets the caller in: the turn is open and paid for when the answer begins to be made."""
    call.presence.watch()
    is_long = len(call.body) >= AT_ONCE
    request = await in_thread(partial(_read, call)) if is_long else _read(call)
    if is_long or request.attachments:
        prepare = while_there(call.presence, partial(prepare_chat, who, request, DOOR))
        opening = Opening(who, request.model, prepare)
        opened, ahead = await open_alone(opening), None
    else:
        opened, ahead = await open_ahead(who, request, DOOR, call.presence)
    question, plan = opened.question, opened.plan
    head = ChatHead(
        f"chatcmpl-{question.turn_id.hex[:12]}",
        int(question.asked_at.timestamp()),
        request.model,
        request.include_usage,
    )
    # Without a plan the database is asked for them.
    headers = headers_of(question, plan) if plan else await in_thread(partial(headers_of, question, None))
    if request.bridge:
        return _bridged(question, plan, head, Judge(request.bridge, question.subject), headers)
    relay = Relay(question, plan, streams=request.stream, ahead=ahead)
    if request.stream:
        return Stream(partial(_pieces, relay, head), error_frame, headers, relay.give_up)
    return Later(partial(_whole, relay, head), headers, relay.give_up)


def _read(call: Call) -> ChatRequest:
    return parse_chat(call.json(), settings.DEFAULT_MODEL)


async def _pieces(relay: Relay, head: ChatHead) -> AsyncGenerator[bytes, None]:
    stream = ChatStream(head)
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            piece = stream.encode(deltas)
            last = deltas[-1]
            if isinstance(last, Done):
                piece += stream.finish(last, _closing(relay, last))
            if piece:
                yield piece


async def _whole(relay: Relay, head: ChatHead) -> Answer:
    fold = ChatFold()
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            fold.add(deltas)
            last = deltas[-1]
            if isinstance(last, Done):
                return Answer(fold.body(head, last, _closing(relay, last)))
    raise RuntimeError("an answer without an end")


def _bridged(
    question: Question, plan: ChatPlan | None, head: ChatHead, judge: Judge, headers: Mapping[str, str]
) -> Reply:
    """Function tools: nothing goes out before the whole answer is known to be sound."""
    relay = Relay(question, plan, streams=False, judge=judge)
    headers = {**headers, EXPERIMENTAL_HEADER: EXPERIMENTAL}
    if question.request.stream:
        return Stream(partial(_called_pieces, relay, head, judge), error_frame, headers, relay.give_up)
    return Later(partial(_called_whole, relay, head, judge), headers, relay.give_up)


async def _called_pieces(relay: Relay, head: ChatHead, judge: Judge) -> AsyncGenerator[bytes, None]:
    await _run_out(relay)
    yield chat_functions.streamed(head, judge.answer, _query_characters(relay), _sonde(relay))


async def _called_whole(relay: Relay, head: ChatHead, judge: Judge) -> Answer:
    await _run_out(relay)
    return Answer(chat_functions.whole(head, judge.answer, _query_characters(relay), _sonde(relay)))


async def _run_out(relay: Relay) -> None:
    async with aclosing(relay.deltas()) as reads:
        async for _ in reads:
            pass


def _closing(relay: Relay, done: Done) -> Closing:
    question = relay.question
    return Closing(
        _query_characters(relay),
        relay.settled.notices,
        footer_of(question, done.sources),
        _sonde(relay, done),
    )


def _query_characters(relay: Relay) -> int:
    return len(relay.plan.query if relay.plan else relay.question.whole)


def _sonde(relay: Relay, done: Done | None = None) -> dict[str, object]:
    return sonde_of(relay.question, relay.plan, relay.settled, done)


routes = (SwiftRoute("POST", "/v1/chat/completions", Scope.CHAT.value, complete, LARGEST_REQUEST),)
