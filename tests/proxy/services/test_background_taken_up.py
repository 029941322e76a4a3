"""Answers in the background that broke off: who goes on when a connection, a worker or a server is gone."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import cast
from uuid import UUID

import pytest
from django.db import OperationalError
from django.utils import timezone

from portal.services import network
from portal.wire.errors import Problem
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse
from proxy.protocol.delta import Text, Thread
from proxy.protocol.responses_stream import Event
from proxy.services import background, relay, settling
from proxy.services.chat import ChatPlan
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

    class Racing:
        """The reader adds the first text at the moment at which a write looks at what waits."""

        has_raced = False

        def __enter__(self) -> None:
            if not self.has_raced:
                self.has_raced = True
                draft.add([Text("Because.")])

        def __exit__(self, *_: object) -> None: ...

    claimed_at = turn_of(row).claimed_at
    assert claimed_at is not None
    draft = background.Draft(row.pk, claimed_at, stream_of(row), hands=Racing())
    assert draft.write()
    assert told(row) == "Because."

    who.client.post(f"{PATH}/{public(row)}/cancel")

    assert who.spent == "0.1 0"


def begun(row: ChatResponse) -> background.Draft:
    """What a worker has of it that has just taken it."""
    ChatTurn.objects.filter(pk=row.pk).update(claimed_at=timezone.now())
    claimed_at = turn_of(row).claimed_at
    assert claimed_at is not None
    return background.Draft(row.pk, claimed_at, stream_of(row))


def test_what_a_write_that_fails_has_in_hand_is_kept_with_the_end(
    who: Chatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader saw event 79 follow event 68: the answer ended while a write of ten events was failing."""
    row = in_background(who)
    kept: list[Event] = []
    draft = begun(row)
    draft.add([Text("Because.")])

    def end_meanwhile(*_: object) -> None:
        outcome = settling.Outcome(problem=Problem("No."))
        draft.keep(cast(ChatPlan, None), [], outcome, settling.Settled())
        raise OperationalError("the database system is shutting down")

    def write_end(response_id: UUID, body: object, events: Sequence[Event], answer: str) -> bool:
        kept.extend(events)
        return True

    monkeypatch.setattr(background, "write_events", end_meanwhile)
    monkeypatch.setattr(background, "write_end", write_end)
    with pytest.raises(OperationalError):
        draft.write()

    written = fresh(row).events
    assert [event.sequence_number for event in kept] == list(range(written, written + len(kept)))
    assert kept[-1].type == "response.failed"


def test_events_of_which_nobody_knows_whether_they_are_written_are_written_once(
    who: Chatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit happened, and its answer was lost."""
    row = in_background(who)
    draft = begun(row)
    draft.add([Text("Because.")])
    with monkeypatch.context() as patched:
        patched.setattr(draft, "waiting", deque(draft.waiting))
        assert draft.write()

    draft.add([Text(" It does.")])
    assert draft.write()

    assert told(row) == "Because. It does."


def test_no_gap_is_ever_written(who: Chatter) -> None:
    row = in_background(who)
    draft = begun(row)
    draft.add([Text("Because.")])
    lost = draft.waiting.popleft()
    draft.add([Text(" It does.")])

    with pytest.raises(RuntimeError, match=f"event {lost[-1].sequence_number + 1} "):
        draft.write()


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
