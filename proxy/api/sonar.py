"""`POST /chat/completions` and `/v1/sonar`: Sonar's shapes, answered by a chat model (SPEC 4.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import msgspec

from portal.api.replies import Answer, Later, Reply
from portal.api.routes import Call, SwiftRoute
from portal.api.streaming import Stream
from portal.api.threads import run_in_database
from portal.models.keys import Scope
from portal.services.principal import Principal
from proxy.api.chat import DOOR, LARGEST_REQUEST
from proxy.protocol.chat_stream import our_member
from proxy.protocol.delta import Done
from proxy.protocol.sonar import parse_sonar
from proxy.protocol.sonar_answer import SonarEnd, SonarFold, SonarHead
from proxy.protocol.sonar_stream import ConciseStream, FullStream, SonarStream, error_record
from proxy.services.chat import Busy, ChatPlan, open_turn, prepare_chat
from proxy.services.relay import Relay
from proxy.services.telling import headers_of


async def complete(call: Call, who: Principal) -> Reply:
    """The turn is open and paid for when the answer begins to be made, as in Chat Completions."""
    call.presence.watch()
    return await run_in_database(partial(_opened, call, who))


def _opened(call: Call, who: Principal) -> Reply:
    request = parse_sonar(call.json())
    question = prepare_chat(who, request.chat, DOOR)
    plan: ChatPlan | None
    try:
        plan = open_turn(question)
    except Busy:
        plan = None  # the relay waits for a place
    head = SonarHead(str(question.turn_id), int(question.asked_at.timestamp()), request.model)
    relay = Relay(question, plan, streams=request.chat.stream)
    headers = headers_of(question, plan)
    if not request.chat.stream:
        return Later(partial(_whole, relay, head), headers, relay.give_up)
    stream = ConciseStream(head) if request.stream_mode == "concise" else FullStream(head)
    return Stream(partial(_pieces, relay, stream), error_record, headers, relay.give_up)


async def _pieces(relay: Relay, stream: SonarStream) -> AsyncGenerator[bytes, None]:
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            piece = stream.encode(deltas)
            last = deltas[-1]
            if isinstance(last, Done):
                piece += stream.finish(_end(relay, last))
            if piece:
                yield piece


async def _whole(relay: Relay, head: SonarHead) -> Answer:
    fold = SonarFold()
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            fold.add(deltas)
            last = deltas[-1]
            if isinstance(last, Done):
                return Answer(msgspec.json.encode(fold.body(head, _end(relay, last))))
    raise RuntimeError("an answer without an end")


def _end(relay: Relay, done: Done) -> SonarEnd:
    question, plan, settled = relay.question, relay.plan, relay.settled
    sonde = our_member(
        done,
        settled.answered_by,
        sandbox=plan is not None and plan.session.upstream.sandbox,
        ignored=question.request.ignored,
    )
    if dropped := question.conversation.dropped.header:
        sonde = {**sonde, "dropped": dropped}
    return SonarEnd(done, len(plan.query if plan else question.whole), settled.notices, sonde)


routes = tuple(
    SwiftRoute("POST", path, Scope.CHAT.value, complete, LARGEST_REQUEST)
    for path in ("/chat/completions", "/v1/sonar")
)
"""`/v1/chat/completions` stays OpenAI's."""
