"""The engine of a chat when somebody leaves: the caller, the server that stops, the process that answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from unittest.mock import patch

import anyio
import pytest

from proxy.protocol.chat import parse_chat
from proxy.protocol.delta import Delta, Done, Text
from proxy.services import relay
from proxy.services.chat import ChatPlan, open_chat, open_turn, prepare_chat
from proxy.services.settling import Settled
from proxy.services.together import Ended, settle_soon
from proxy.upstream import parting
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, request
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture
def who() -> Chatter:
    return chatter()


def test_whoever_leaves_while_the_answer_is_judged_has_had_none(who: Chatter) -> None:
    account()
    judging = asyncio.Event()

    class Slow:
        async def judge(self, done: Done) -> None:
            judging.set()
            await asyncio.Event().wait()

    plan = open_chat(who.principal, parse_chat(request("Why?"), "gpt"), "api")

    async def leave() -> None:
        engine = relay.Relay(plan.question, plan, streams=False, judge=Slow())

        async def read() -> None:
            async with aclosing(engine.deltas()) as reads:
                async for _ in reads:
                    pass

        reading = asyncio.create_task(read())
        await judging.wait()
        reading.cancel()
        await asyncio.wait({reading})

    asyncio.run(leave())

    assert who.turn.state == "cancelled"
    assert who.spent == "0 0"


def test_a_cancelled_scope_while_it_is_opened_leaves_nothing_held(who: Chatter) -> None:
    account()
    question = prepare_chat(who.principal, parse_chat(request("Why?"), "gpt"), "mcp")
    begun, gate = threading.Event(), threading.Event()

    def slowly() -> ChatPlan:
        plan = open_turn(question)
        begun.set()
        gate.wait(10)
        return plan

    async def leave() -> None:
        engine = relay.Relay(question, None, streams=False, take=slowly)

        async def read() -> None:
            async with aclosing(engine.deltas()) as reads:
                async for _ in reads:
                    pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await asyncio.to_thread(begun.wait, 10)
            tasks.cancel_scope.cancel()
        gate.set()
        assert engine._settling is not None
        await engine._settling

    asyncio.run(leave())

    assert who.turn.state == "cancelled"
    assert who.spent == "0 0"


def test_a_cancelled_scope_closes_the_connection_and_pays_what_was_told(
    who: Chatter, sandbox: SandboxServer
) -> None:
    account()
    plan = open_chat(who.principal, parse_chat(request("Why? [sandbox:duration=30]"), "gpt"), "mcp")

    async def leave() -> None:
        engine = relay.Relay(plan.question, plan, streams=True)
        told = asyncio.Event()

        async def read() -> None:
            async with aclosing(engine.deltas()) as reads:
                async for deltas in reads:
                    if any(isinstance(delta, Text) for delta in deltas):
                        told.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await told.wait()
            tasks.cancel_scope.cancel()
        assert engine._settling is not None
        await engine._settling
        assert not parting._tails or await asyncio.wait(parting._tails)

    asyncio.run(leave())

    assert who.turn.state == "cancelled"
    assert who.spent == "0.1 0"


async def at_once(_: relay.Relay) -> AsyncGenerator[list[Delta], None]:
    """An attempt that brings a whole answer in one read."""
    yield [Text("So."), Done(answer="So.")]


def test_text_that_comes_with_the_end_does_not_wait_until_that_is_settled(who: Chatter) -> None:
    account()
    plan = open_chat(who.principal, parse_chat(request("Why?"), "gpt"), "api")
    shown = asyncio.Event()

    async def late(ended: Ended) -> Settled:
        await asyncio.wait_for(shown.wait(), 10)
        return await settle_soon(ended)

    async def read() -> list[list[Delta]]:
        parts = []
        async with aclosing(relay.Relay(plan.question, plan, streams=True).deltas()) as reads:
            async for deltas in reads:
                parts.append(deltas)
                shown.set()
        return parts

    with patch.object(relay.Relay, "_attempt", at_once), patch.object(relay, "settle_soon", late):
        assert asyncio.run(read()) == [[Text("So.")], [Done(answer="So.")]]

    assert (who.turn.state, who.spent) == ("delivered", "0.1 0")


@pytest.mark.parametrize("leaves_with", ["the text", "the end"])
def test_whoever_leaves_a_whole_answer_as_it_is_settled_has_had_it(who: Chatter, leaves_with: str) -> None:
    account()
    plan = open_chat(who.principal, parse_chat(request("Why?"), "gpt"), "api")

    async def read() -> None:
        async with aclosing(relay.Relay(plan.question, plan, streams=True).deltas()) as reads:
            async for deltas in reads:
                if leaves_with == "the text" or isinstance(deltas[-1], Done):
                    return

    with patch.object(relay.Relay, "_attempt", at_once):
        asyncio.run(read())

    assert (who.turn.state, who.spent) == ("delivered", "0.1 0")
