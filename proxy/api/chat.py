"""`POST /v1/chat/completions` (proxy-contract §4, openai-compat §2), streamed and plain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from django.conf import settings

from portal.api.intake import LARGEST_BODY
from portal.api.lean import Answer, Call, KeyRoute, Later, Reply
from portal.api.streaming import Stream
from portal.models.keys import Scope
from portal.services.principal import Principal
from proxy.protocol import chat_functions
from proxy.protocol.attachments import LARGEST
from proxy.protocol.chat import parse_chat
from proxy.protocol.chat_stream import ChatFold, ChatHead, ChatStream, Closing, error_frame
from proxy.protocol.delta import Done
from proxy.protocol.functions import EXPERIMENTAL, EXPERIMENTAL_HEADER
from proxy.services.bridge import Judge
from proxy.services.chat import Busy, ChatPlan, Question, open_turn, prepare_chat
from proxy.services.relay import Relay
from proxy.services.telling import footer_of, headers_of, sonde_of

DOOR = "api"
LARGEST_REQUEST = LARGEST_BODY + LARGEST * 4 // 3
"""Bytes: what is attached comes as base64."""


def complete(call: Call, who: Principal) -> Reply:
    """Lets the caller in: the turn is open and paid for when the answer begins to be made."""
    request = parse_chat(call.json(), settings.DEFAULT_MODEL)
    question = prepare_chat(who, request, DOOR)
    plan: ChatPlan | None
    try:
        plan = open_turn(question)
    except Busy:
        plan = None  # the relay waits for a place
    head = ChatHead(
        f"chatcmpl-{question.turn_id.hex[:12]}",
        int(question.asked_at.timestamp()),
        request.model,
        request.include_usage,
    )
    headers = headers_of(question, plan)
    if request.bridge:
        return _bridged(question, plan, head, Judge(request.bridge, question.subject), headers)
    relay = Relay(question, plan, streams=request.stream)
    if request.stream:
        return Stream(partial(_pieces, relay, head), error_frame, headers)
    return Later(partial(_whole, relay, head), headers)


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
        return Stream(partial(_called_pieces, relay, head, judge), error_frame, headers)
    return Later(partial(_called_whole, relay, head, judge), headers)


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
        _sonde(relay),
    )


def _query_characters(relay: Relay) -> int:
    return len(relay.plan.query if relay.plan else relay.question.whole)


def _sonde(relay: Relay) -> dict[str, object]:
    return sonde_of(relay.question, relay.plan, relay.settled)


routes = (KeyRoute("POST", "/v1/chat/completions", Scope.CHAT.value, complete, LARGEST_REQUEST),)
