"""Questions that are on their way while their round is: what a round refuses is left at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import Mock, patch

import pytest
from django.db import OperationalError

from portal.models.ledger import CreditAccount
from portal.services.ledger_check import check
from portal.wire.errors import BadRequest
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.services import glance, rotation, together
from proxy.services.together import Opening, Result, Work, do_round
from tests.proxy.accounts import account, occupy, token
from tests.proxy.chatting import Chatter, chatter
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
BEFORE = "What was asked before?"
FOR_A_SECOND = "Why? [sandbox:duration=1]"
SLOWLY = "Why? [sandbox:web.first-frame=20]"


@pytest.fixture(autouse=True)
def lasting_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glance, "LIFE_SECONDS", 60)


@pytest.fixture
def pool() -> WebAccount:
    return account()


@pytest.fixture
def who(pool: WebAccount) -> Chatter:
    """Somebody with credit for thousands, whom a round has just seen."""
    rich = chatter(1000)
    assert rich.chat(BEFORE).status_code == 200
    return rich


def asks(sandbox: SandboxServer) -> list[dict[str, Any]]:
    """Those that came after the chat before, the newest first: an earlier test's may have come before it."""
    newest_first = sandbox.web_requests("/rest/sse/perplexity_ask")
    before = next(place for place, ask in enumerate(newest_first) if BEFORE in str(ask))
    return newest_first[:before]


def rounds_after(meanwhile: Callable[[], None]) -> AbstractContextManager[Any]:
    """Each round that opens something has to wait for `meanwhile`."""

    def late(works: Sequence[Work]) -> Sequence[Result | BaseException]:
        if any(isinstance(work, Opening) for work in works):
            meanwhile()
        return do_round(works)

    return patch.object(together._groups, "_do", late)


def until(is_so: Callable[[], object], problem: str) -> None:
    deadline = time.monotonic() + 5
    while not is_so():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


def arrival(sandbox: SandboxServer, then: Callable[[], object] = lambda: None) -> Callable[[], None]:
    """Until a question has reached the sandbox, whose turn nobody has opened; `then` happens."""

    def wait() -> None:
        before = ChatTurn.objects.count()
        until(lambda: bool(asks(sandbox)), "it was not asked ahead")
        assert ChatTurn.objects.count() == before
        then()

    return wait


def until_left(sandbox: SandboxServer) -> None:
    """The first of them."""
    until(lambda: asks(sandbox)[-1:] and asks(sandbox)[-1]["ending"] == "left", "it was not left")


def seen_by_a_round(who: Chatter) -> None:
    """A round that opens nothing for them."""
    refuse = Mock(side_effect=BadRequest("no"))
    do_round([Opening(who.principal, "gpt", refuse)])


@pytest.mark.parametrize("stream", [False, True])
def test_it_asks_while_the_turn_is_opened(sandbox: SandboxServer, who: Chatter, stream: bool) -> None:
    with rounds_after(arrival(sandbox)):
        answer = who.chat(stream=stream)

    assert answer.status_code == 200
    assert len(asks(sandbox)) == 1
    assert (who.turn.state, who.turn.account_id is None) == ("delivered", False)
    assert check() == []


def test_it_leaves_the_upstream_when_the_credit_is_gone(sandbox: SandboxServer, who: Chatter) -> None:
    def spend() -> None:
        CreditAccount.objects.filter(user=who.user).update(own=0)

    turns = ChatTurn.objects.count()
    with rounds_after(arrival(sandbox, spend)):
        answer = who.chat(SLOWLY, stream=True)

    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "insufficient_quota"
    assert ChatTurn.objects.count() == turns
    until_left(sandbox)


def test_it_leaves_the_upstream_when_the_database_is_away(sandbox: SandboxServer, who: Chatter) -> None:
    away = patch.object(together, "open_turn", side_effect=OperationalError("away"))
    broken = patch.object(together, "_Round", side_effect=OperationalError("away"))

    with rounds_after(arrival(sandbox)), away, broken:
        answer = who.chat(SLOWLY)

    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    until_left(sandbox)


def test_it_asks_anew_when_the_round_takes_another_account(
    sandbox: SandboxServer, who: Chatter, pool: WebAccount
) -> None:
    other = account("other")

    def disable() -> None:
        WebAccount.objects.filter(pk=pool.pk).update(enabled=False)

    with rounds_after(arrival(sandbox, disable)):
        answer = who.chat(FOR_A_SECOND)

    assert answer.status_code == 200
    assert who.turn.account_id == other.pk
    assert len(asks(sandbox)) == 2
    until_left(sandbox)


def test_it_asks_anew_when_every_place_is_taken(
    sandbox: SandboxServer, who: Chatter, pool: WebAccount
) -> None:
    def fill() -> None:
        occupy(pool, who.user.pk, pool.parallel_limit)

    async def leave() -> None:
        here = who.visit(SLOWLY)
        await asyncio.to_thread(until_left, sandbox)
        here.leave()
        await here.end()

    with rounds_after(arrival(sandbox, fill)):
        asyncio.run(asyncio.wait_for(leave(), 10))

    assert len(asks(sandbox)) == 1


def test_it_leaves_the_upstream_of_a_round_that_the_server_does_not_wait_for(
    sandbox: SandboxServer, who: Chatter
) -> None:
    async def stop() -> None:
        here = who.visit(SLOWLY)
        await asyncio.to_thread(until, lambda: bool(asks(sandbox)), "it was not asked ahead")
        here.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await here.task
        await asyncio.to_thread(until_left, sandbox)

    with rounds_after(arrival(sandbox, lambda: time.sleep(1))):
        asyncio.run(asyncio.wait_for(stop(), 10))


def test_it_keeps_the_token_of_an_answer_that_it_leaves(sandbox: SandboxServer, who: Chatter) -> None:
    restless = account("restless", "sandbox-rotating2-restless-max-r", priority=-1)
    do_round([])  # sees it
    before = token(restless)

    def disable() -> None:
        time.sleep(0.5)  # its head is there
        WebAccount.objects.filter(pk=restless.pk).update(enabled=False)

    async def ask() -> None:
        here = who.visit(FOR_A_SECOND)
        await here.end()
        assert rotation.is_free(restless.pk) is False

    with rounds_after(arrival(sandbox, disable)):
        asyncio.run(ask())

    assert token(restless) != before


@pytest.mark.parametrize(
    "doubt", ["poor", "half busy", "in trouble", "long ago", "unknown model", "history", "system prompt"]
)
def test_it_asks_nothing_ahead_in_doubt(
    sandbox: SandboxServer, who: Chatter, pool: WebAccount, doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: dict[str, Any] = {}
    said: Any = "Why?"
    if doubt == "poor":
        CreditAccount.objects.filter(user=who.user).update(own=9)
        seen_by_a_round(who)
    elif doubt == "half busy":
        occupy(pool, who.user.pk, pool.parallel_limit // 2)
        do_round([])
    elif doubt == "in trouble":
        glance.forget()
    elif doubt == "long ago":
        monkeypatch.setattr(glance, "LIFE_SECONDS", 0)
    elif doubt == "unknown model":
        fields = {"model": "sonar"}
    elif doubt == "history":
        said = [("user", "Why?"), ("assistant", "So."), ("user", "And?")]
        said = [{"role": role, "content": text} for role, text in said]
    else:
        said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]

    def nobody_asks() -> None:
        time.sleep(0.2)
        assert not asks(sandbox)

    with rounds_after(nobody_asks):
        assert who.chat(said, **fields).status_code == 200

    assert len(asks(sandbox)) == 1
