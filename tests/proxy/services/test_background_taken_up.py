"""Answers in the background that broke off: who goes on when a connection, a worker or a server is gone."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import CancelledError
from functools import partial

import pytest
from django.utils import timezone

from portal.services import network
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse
from proxy.protocol.delta import Text, Thread
from proxy.protocol.responses_stream import Event
from proxy.services import background, relay, settling
from proxy.services.response_rows import stream_of
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, kinds
from tests.proxy.responding import (
    PATH,
    body,
    checked,
    fresh,
    get,
    in_background,
    public,
    replay,
    text_of,
    work,
)
from tests.proxy.services.workers import (
    die,
    in_a_worker,
    left_by_a_dead_worker,
    text_in,
    told,
    turn_of,
    until,
)
from tests.sandbox_server import SandboxServer
from tests.visit import Visit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


@pytest.mark.parametrize("broken_again", range(3))
def test_it_takes_the_answer_up_where_its_connection_broke(
    who: Chatter, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, broken_again: int
) -> None:
    monkeypatch.setattr(relay, "REJOINS", (0, 0, 0, 0))
    question = "Why? [sandbox:pieces=12] [sandbox:thinking] [sandbox:cut-stream=14]"
    row = work(in_background(who, f"{question} [sandbox:web.poll-cut={broken_again}]"))

    [entry] = sandbox.web_entries()
    payloads = checked(replay(who, public(row)))
    assert (row.status, entry["reconnects"]) == ("completed", broken_again + 1)
    assert text_of(row.body) == told(row) == payloads[-1]["response"]["output_text"] != ""
    assert len(sandbox.web_requests("/rest/sse/perplexity_ask")) == 1
    assert (who.spent, kinds(who)) == ("0.1 0", ["reserve", "close"])


def test_it_fails_with_what_was_told_when_a_broken_answer_is_gone(who: Chatter) -> None:
    row = work(in_background(who, "Why? [sandbox:cut-stream=12] [sandbox:pieces=12] [sandbox:no-resume]"))

    payloads = checked(replay(who, public(row)))
    assert payloads[-1]["type"] == "response.failed"
    assert "broke off" in row.body["error"]["message"]
    assert text_of(row.body) == told(row) != ""
    assert who.spent == "0.1 0"


def test_it_takes_a_broken_answer_up_so_often_and_no_more(
    who: Chatter, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "REJOINS", (0, 0))
    row = work(in_background(who, "Why? [sandbox:cut-stream=12] [sandbox:pieces=12] [sandbox:web.poll-cut]"))

    assert (row.status, sandbox.web_entries()[0]["reconnects"]) == ("failed", 2)
    assert who.spent == "0.1 0"


def test_it_takes_the_answer_up_where_a_dead_worker_left_it(who: Chatter, sandbox: SandboxServer) -> None:
    row = in_background(who, "Why? [sandbox:duration=4] [sandbox:thinking]")
    left_by_a_dead_worker(row)
    early = told(row)

    background.ring_waiting()
    ended = work(row)

    payloads = checked(replay(who, public(row)))
    assert ended.status == "completed"
    assert text_of(ended.body).startswith(early)
    assert text_of(ended.body) == payloads[-1]["response"]["output_text"]
    [entry] = sandbox.web_entries()
    assert entry["reconnects"] == 1
    assert who.spent == "0.1 0"
    assert kinds(who) == ["reserve", "close"]


async def left_by_a_dead_web_process(who: Chatter, said: str) -> tuple[ChatResponse, bytes]:
    """Its caller was told some of it; then a worker may have it. With what the caller had seen by then."""
    visit = Visit(who.client.application, "POST", PATH, body(said, stream=True), key=who.key)
    await visit.until(b"output_text.delta")
    row = await ChatResponse.objects.aget()
    await asyncio.to_thread(until, lambda: fresh(row).thread)
    await asyncio.to_thread(die, row)
    await asyncio.to_thread(background.ring_waiting)
    seen = visit.body
    # What the process still does, if it was merely slow, is void.
    visit.leave()
    await visit.end()
    return row, seen


async def test_a_stream_is_ended_by_a_worker_when_its_web_process_dies(
    who: Chatter, sandbox: SandboxServer
) -> None:
    row, seen = await left_by_a_dead_web_process(who, "Why? [sandbox:duration=2] [sandbox:thinking]")
    spent = await asyncio.to_thread(lambda: who.spent)
    resume = partial(get, who, public(row), stream="true", starting_after="3")
    refused = [await asyncio.to_thread(resume)]
    ended = await asyncio.to_thread(work, row)
    refused.append(await asyncio.to_thread(resume))

    whole = await asyncio.to_thread(replay, who, public(row))
    last = checked(whole)[-1]
    assert (spent, last["type"]) == ("0 0.1", "response.completed")
    assert ended.body == last["response"]
    assert (ended.body["background"], ended.attempts) == (False, 1)
    assert text_of(ended.body).startswith(text_in(seen) or "nothing was seen")
    assert await asyncio.to_thread(lambda: (who.spent, kinds(who))) == ("0.1 0", ["reserve", "close"])
    [entry] = await asyncio.to_thread(sandbox.web_entries)
    assert entry["reconnects"] == 1
    # Its events are others than those that the caller saw.
    assert [error_of(one)[::2] for one in refused] == [(400, "starting_after")] * 2


async def test_whoever_reads_a_stream_along_gets_what_its_caller_gets(who: Chatter) -> None:
    visit = Visit(
        who.client.application, "POST", PATH, body("Why? [sandbox:duration=1]", stream=True), key=who.key
    )
    await visit.until(b"output_text.delta")
    row = await ChatResponse.objects.aget()
    reading = asyncio.create_task(asyncio.to_thread(replay, who, public(row)))
    await visit.end()

    assert await reading == visit.body


async def test_a_stream_that_cannot_be_taken_up_fails_and_costs_nothing(
    who: Chatter, sandbox: SandboxServer
) -> None:
    row, _ = await left_by_a_dead_web_process(who, "Why? [sandbox:duration=2] [sandbox:no-resume]")
    ended = await asyncio.to_thread(work, row)

    assert checked(await asyncio.to_thread(replay, who, public(row)))[-1]["type"] == "response.failed"
    assert (ended.status, ended.body["output"]) == ("failed", [])
    assert await asyncio.to_thread(lambda: who.spent) == "0 0"
    assert len(await asyncio.to_thread(sandbox.web_entries)) == 1


async def test_a_stream_that_a_worker_took_over_can_be_stopped(who: Chatter) -> None:
    row, _ = await left_by_a_dead_web_process(who, "Why? [sandbox:duration=2]")

    got = await asyncio.to_thread(who.client.post, f"{PATH}/{public(row)}/cancel")

    assert got.json()["status"] == "cancelled"
    assert checked(await asyncio.to_thread(replay, who, public(row)))[-1]["type"] == "response.incomplete"


async def test_a_stream_that_a_worker_took_over_is_stopped_when_it_is_deleted(who: Chatter) -> None:
    row, _ = await left_by_a_dead_web_process(who, "Why? [sandbox:duration=2]")

    await asyncio.to_thread(who.client.request, "DELETE", f"{PATH}/{public(row)}")

    assert (await asyncio.to_thread(turn_of, row)).state == "cancelled"


def test_text_that_comes_while_it_is_written_down_is_paid_like_any(who: Chatter) -> None:
    row = in_background(who)
    ChatTurn.objects.filter(pk=row.pk).update(claimed_at=timezone.now())

    class Racing(deque[list[Event]]):
        """The reader adds the first text at the moment at which a write looks at what waits."""

        has_raced = False

        def __len__(self) -> int:
            if not self.has_raced:
                self.has_raced = True
                draft.add([Text("Because.")])
            return super().__len__()

    claimed_at = turn_of(row).claimed_at
    assert claimed_at is not None
    draft = background.Draft(row.pk, claimed_at, stream_of(row), waiting=Racing())
    assert draft.write()
    assert told(row) == "Because."

    who.client.post(f"{PATH}/{public(row)}/cancel")

    assert who.spent == "0.1 0"


def test_it_asks_anew_when_nothing_was_told_and_the_thread_is_gone(
    who: Chatter, sandbox: SandboxServer
) -> None:
    row = in_background(who, "Why? [sandbox:no-resume]")
    ChatTurn.objects.filter(pk=row.pk).update(account=WebAccount.objects.get())
    draft = background.Draft(row.pk, timezone.now(), stream_of(row))
    ChatTurn.objects.filter(pk=row.pk).update(claimed_at=draft.claimed_at)
    draft.thread = Thread("nobody-knows-it")
    assert draft.write()
    die(row)

    background.ring_waiting()
    ended = work(row)

    assert ended.status == "completed"
    assert len(sandbox.web_entries()) == 1
    checked(replay(who, public(row)))


def test_it_fails_with_what_was_told_when_the_answer_cannot_be_taken_up(
    who: Chatter,
) -> None:
    row = in_background(who, "Why? [sandbox:duration=4] [sandbox:no-resume]")
    left_by_a_dead_worker(row)

    background.ring_waiting()
    ended = work(row)

    payloads = checked(replay(who, public(row)))
    assert payloads[-1]["type"] == "response.failed"
    assert text_of(ended.body) == told(row) != ""
    assert who.spent == "0.1 0"


def test_it_gives_up_what_every_worker_dies_of(who: Chatter) -> None:
    row = in_background(who)
    ChatResponse.objects.update(attempts=background.MOST_ATTEMPTS)

    ended = work(row)

    assert (ended.status, ended.body["error"]["message"]) == ("failed", settling.DIED)
    assert who.spent == "0 0"
    checked(replay(who, public(row)))


def test_it_waits_for_nobody_longer_than_an_hour(who: Chatter) -> None:
    row = in_background(who)
    ChatResponse.objects.update(created_at=timezone.now() - background.PATIENCE * 2)

    assert work(row).status == "failed"
    assert who.spent == "0 0"


def test_it_is_handed_on_when_its_worker_is_stopped(who: Chatter, sandbox: SandboxServer) -> None:
    row = in_background(who, "Why? [sandbox:duration=4]")
    wait = in_a_worker(row)
    until(lambda: told(row))

    network.close()
    with pytest.raises(CancelledError):
        wait()

    turn = turn_of(row)
    assert (turn.state, turn.claimed_at, fresh(row).status) == ("open", None, "in_progress")
    assert work(row).status == "completed"
    assert sandbox.web_entries()[0]["reconnects"] == 1
    checked(replay(who, public(row)))
