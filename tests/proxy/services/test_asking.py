"""Sessions whose token changes with every answer: none is lost, none is given up."""

from __future__ import annotations

import asyncio

import pytest

from portal.services import network
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.web_request import Ask
from proxy.services.accounts import session_of
from proxy.services.asking import open_answer
from proxy.services.keepalive import check_account
from proxy.upstream import web
from tests.proxy.accounts import account, token
from tests.proxy.upstream.asked import ids

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
RESTLESS = "sandbox-max-rotating-restless-eve"
QUESTION = Ask("How do tides come about?", "pplx_pro")


async def asked(session: web.Session) -> str:
    opened = await open_answer(session, QUESTION, ids())
    if isinstance(opened, Fault):
        return opened.kind
    async for _ in opened.chunks():
        pass
    await opened.close()
    return "answered"


def test_it_keeps_the_token_before_the_answer_is_read() -> None:
    mine = account(token=RESTLESS)
    session = session_of(mine)

    async def begin() -> None:
        opened = await open_answer(session, QUESTION, ids())
        assert isinstance(opened, web.Opened)
        await opened.close()  # as a process that was killed would leave it

    network.call(begin())

    assert token(mine) == f"{RESTLESS}.1"


def test_a_session_that_rotates_with_every_answer_outlives_a_hundred_at_once() -> None:
    mine = account(token=RESTLESS)
    session = session_of(mine)

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(asked(session) for _ in range(100)))

    assert network.call(all_at_once()) == ["answered"] * 100
    assert token(mine) == f"{RESTLESS}.100"


def test_an_outdated_token_is_asked_again_with_the_present_one() -> None:
    mine = account(token="sandbox-max-rotating-eve")
    outdated = session_of(mine)
    for _ in range(3):
        check_account(mine)  # each makes the one before the last worthless

    assert network.call(asked(outdated)) == "answered"


def test_a_session_that_is_over_is_said_to_be() -> None:
    mine = account(token="sandbox-expired-eve")

    assert network.call(asked(session_of(mine))) == FaultKind.SIGNED_OUT
