"""Clients that leave while their chat is opened: by a round, or alone, and somebody's lock holds that up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connections, transaction

from portal.doors import doors
from portal.services.ledger_check import check
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.services import glance, together
from proxy.services.together import Opening, Result, Work, do_round
from tests.proxy import responding
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter
from tests.sandbox_server import SandboxServer
from tests.visit import Visit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
SLOWLY = "Why? [sandbox:web.first-frame=20]"
Doing = Callable[[Sequence[Work]], Sequence[Result | BaseException]]


@pytest.fixture(autouse=True)
def lasting_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glance, "LIFE_SECONDS", 60)


@pytest.fixture
def who() -> Chatter:
    """Somebody with credit for thousands, whom a round has just seen: they are asked for ahead."""
    account()
    rich = chatter(1000)
    assert rich.chat().status_code == 200
    return rich


def asks(sandbox: SandboxServer) -> list[dict[str, Any]]:
    """But for the one of the chat before."""
    return sandbox.web_requests("/rest/sse/perplexity_ask")[:-1]


async def until(is_so: Callable[[], object], problem: str) -> None:
    for _ in range(250):
        if await asyncio.to_thread(is_so):
            return
        await asyncio.sleep(0.02)
    pytest.fail(problem)


async def leave_while_it_is_opened(here: Visit, sandbox: SandboxServer, gate: threading.Event) -> None:
    """The upstream is left at once, though nothing moves before `gate`; the rest when it moves."""
    await until(lambda: asks(sandbox), "it was not asked ahead")
    here.leave()
    before = time.monotonic()
    await until(lambda: asks(sandbox)[0]["ending"] == "left", "the upstream was not left")
    assert time.monotonic() - before < 1
    assert not here.task.done()
    gate.set()
    before = time.monotonic()
    await here.end()
    assert time.monotonic() - before < 1


@contextmanager
def locked(gate: threading.Event) -> Iterator[None]:
    """Until `gate` somebody else has locked the pool, as a sweep or a switch does."""
    begun = threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                list(WebAccount.objects.select_for_update())
                WebAccount.objects.update(priority=0)
                begun.set()
                gate.wait(10)
        finally:
            connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait(10)
    try:
        yield
    finally:
        gate.set()
        thread.join()


@pytest.mark.parametrize("stream", [False, True])
def test_it_leaves_the_upstream_at_once_while_a_lock_holds_up_the_round(
    sandbox: SandboxServer, who: Chatter, stream: bool
) -> None:
    gate = threading.Event()

    async def leave() -> None:
        await leave_while_it_is_opened(who.visit(SLOWLY, stream=stream), sandbox, gate)

    with locked(gate):
        asyncio.run(leave())

    assert who.spent.split()[1] == "0"
    assert not ChatTurn.objects.filter(state="open").exists()
    assert check() == []


@pytest.mark.parametrize("stream", [False, True])
def test_it_releases_the_turn_that_a_round_has_opened_for_nobody(
    sandbox: SandboxServer, who: Chatter, stream: bool
) -> None:
    gate = threading.Event()

    def told_late(works: Sequence[Work]) -> Sequence[Result | BaseException]:
        results = do_round(works)
        if any(isinstance(work, Opening) for work in works):
            assert ChatTurn.objects.filter(state="open").exists()
            gate.wait(10)
        return results

    async def leave() -> None:
        await leave_while_it_is_opened(who.visit(SLOWLY, stream=stream), sandbox, gate)

    with patch.object(together._groups, "_do", told_late):
        asyncio.run(leave())

    assert (who.turn.state, who.spent.split()[1]) == ("cancelled", "0")
    assert len(asks(sandbox)) == 1
    assert check() == []


def test_a_round_passes_over_whoever_has_left_before_it(sandbox: SandboxServer, who: Chatter) -> None:
    gate = threading.Event()

    def begun_late(works: Sequence[Work]) -> Sequence[Result | BaseException]:
        gate.wait(10)
        return do_round(works)

    async def leave() -> None:
        await leave_while_it_is_opened(who.visit(SLOWLY), sandbox, gate)

    turns = ChatTurn.objects.count()
    with patch.object(together._groups, "_do", begun_late):
        asyncio.run(leave())

    assert ChatTurn.objects.count() == turns
    assert who.spent.split()[1] == "0"


@pytest.mark.parametrize("path", [responding.PATH, "/v1/sonar", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
def test_it_asks_nothing_for_whoever_left_while_their_turn_was_opened_alone(
    sandbox: SandboxServer, who: Chatter, path: str, stream: bool
) -> None:
    glance.forget()
    gate = threading.Event()
    fields = responding.body(SLOWLY, stream=stream)
    if path != responding.PATH:
        messages = [{"role": "user", "content": SLOWLY}]
        model = "sonar" if path == "/v1/sonar" else "gpt"
        fields = {"model": model, "messages": messages, "stream": stream}

    async def leave() -> None:
        here = Visit(doors, "POST", path, fields, key=who.key)
        await asyncio.sleep(0.3)  # it waits for the lock by now
        here.leave()
        await asyncio.sleep(0.1)
        gate.set()
        await asyncio.wait_for(here.end(), 1)
        assert here.messages == []

    with locked(gate):
        asyncio.run(leave())

    assert asks(sandbox) == []
    assert who.spent.split()[1] == "0"
    assert not ChatTurn.objects.filter(state="open").exists()
    assert check() == []
