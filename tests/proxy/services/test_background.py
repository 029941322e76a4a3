"""Background responses: queued, made by a worker, followed, cancelled, taken over, forgotten."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.services import network, queue
from portal.services.ledger_check import check
from portal.services.users import set_active
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse, ResponseEvents
from proxy.protocol.delta import Text, Thread
from proxy.protocol.responses_stream import Event
from proxy.services import background, leases, relay, response_tail, responses, settling
from proxy.services.response_rows import stream_of
from proxy.services.threads import in_thread
from tests.proxy.accounts import account, occupy
from tests.proxy.chatting import Chatter, chatter, error_of, kinds, say
from tests.proxy.responding import (
    PATH,
    answer,
    ask,
    body,
    checked,
    fresh,
    get,
    in_background,
    public,
    records,
    replay,
    text_of,
    work,
)
from tests.sandbox_server import SandboxServer
from tests.visit import Visit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]

LONG = "Why? [sandbox:duration=20] [sandbox:pieces=200]"


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def turn_of(row: ChatResponse) -> ChatTurn:
    return ChatTurn.objects.get(pk=row.pk)


def in_a_worker(row: ChatResponse) -> Callable[[], None]:
    """Starts to answer; the function that is returned waits for the end."""
    pool = ThreadPoolExecutor(1)

    def run() -> None:
        try:
            background.answer_response(row.pk)
        finally:
            connections.close_all()

    answered = pool.submit(run)
    return lambda: answered.result(30)


def until(holds: Callable[[], object], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def told(row: ChatResponse) -> str:
    """The text in the events that are written."""
    data = "".join(ResponseEvents.objects.filter(response=row).values_list("data", flat=True))
    return text_in(data.encode())


def text_in(stream: bytes) -> str:
    """The text in the events that came."""
    payloads = [json.loads(line[6:]) for line in stream.decode().split("\n") if line.startswith("data: ")]
    return "".join(one["delta"] for one in payloads if one["type"] == "response.output_text.delta")


def die(row: ChatResponse) -> None:
    """As a worker that is killed in the middle leaves it: the lease is over, nobody has released it."""
    ChatTurn.objects.filter(pk=row.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def listen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is rung for from now on; nobody hears it."""
    bell = queue.Bell()
    rung: list[tuple[str, ...]] = []
    monkeypatch.setattr(bell, "ring", lambda task, *arguments: rung.append((task, *arguments)))
    monkeypatch.setattr(queue, "_bell", bell)
    return rung


def left_by_a_dead_worker(row: ChatResponse) -> None:
    """Somebody begins it, tells some of its text, and is gone without a word."""
    wait = in_a_worker(row)
    until(lambda: told(row))
    # What it still does is refused: it is not the one who holds the turn any more.
    ChatTurn.objects.filter(pk=row.pk).update(claimed_at=timezone.now() - timedelta(hours=1))
    wait()
    die(row)


def test_it_is_queued_at_once_and_answered_by_a_worker(who: Chatter) -> None:
    whole = answer(who, f"Why? {say('It scatters.')}", background=True)

    assert (whole["status"], whole["background"], whole["output"]) == ("queued", True, [])
    assert who.spent == "0 0.1"
    row = work(ChatResponse.objects.get())
    ended = get(who, whole["id"]).json()
    assert (row.status, ended["status"], text_of(ended)) == ("completed", "completed", "It scatters.")
    assert (row.prepared, row.thread) == (None, "")
    assert who.spent == "0.1 0"
    assert kinds(who) == ["reserve", "close"]
    assert check() == []


def test_it_takes_no_place_while_it_waits_for_a_worker(who: Chatter) -> None:
    row = in_background(who)

    assert turn_of(row).account is None
    assert work(row).status == "completed"
    assert turn_of(row).account is not None


def test_it_is_let_in_while_everybody_is_busy(who: Chatter, pool: WebAccount, settings: Settings) -> None:
    occupy(pool, who.user.pk, turns=pool.parallel_limit)
    settings.CHAT_WAIT_SECONDS = 0.2
    row = in_background(who)

    assert work(row).status == "in_progress"
    ChatTurn.objects.exclude(pk=row.pk).delete()
    assert work(row).status == "completed"
    assert fresh(row).attempts == 1


def test_it_is_refused_where_nobody_can_ever_answer(who: Chatter) -> None:
    WebAccount.objects.all().delete()

    assert error_of(ask(who, background=True))[0] == 503
    assert not ChatResponse.objects.exists()
    assert who.spent == "0 0"


def test_it_writes_events_that_keep_every_rule(who: Chatter) -> None:
    row = work(in_background(who, "Why is the sea salty?"))

    payloads = checked(replay(who, public(row)))
    assert [one["type"] for one in payloads[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert payloads[0]["response"]["status"] == "queued"
    assert payloads[-1]["response"] == row.body
    assert row.events == len(payloads)


def test_it_replays_from_any_event(who: Chatter) -> None:
    row = work(in_background(who))

    whole = records(replay(who, public(row)))
    for after in range(len(whole)):
        assert replay(who, public(row), after) == b"".join(whole[after + 1 :])


def test_it_writes_while_the_answer_grows(who: Chatter) -> None:
    row = in_background(who, "Why? [sandbox:duration=3]")
    wait = in_a_worker(row)
    until(lambda: told(row))

    early = told(row)
    wait()

    assert 0 < len(early) < len(told(row))
    batches = list(ResponseEvents.objects.filter(response=row))
    assert len(batches) > 3
    assert all(one.last + 1 == two.first for one, two in pairwise(batches))


async def test_it_streams_to_who_asked_and_goes_on_without_them(who: Chatter) -> None:
    question = body("Why? [sandbox:duration=2]", background=True, stream=True)
    visit = Visit(who.client.application, "POST", PATH, question, key=who.key)
    await visit.until(b"response.queued")
    row = await ChatResponse.objects.aget()
    worker = asyncio.create_task(asyncio.to_thread(in_a_worker(row)))
    await visit.until(b"output_text.delta")

    visit.leave()
    await visit.end()
    await worker

    whole = await asyncio.to_thread(replay, who, public(row))
    assert checked(whole)[-1]["type"] == "response.completed"
    assert whole.startswith(visit.body)


async def test_it_follows_from_where_a_reader_left(who: Chatter) -> None:
    row = await in_thread(lambda: in_background(who, "Why? [sandbox:duration=1]"))
    worker = asyncio.create_task(asyncio.to_thread(in_a_worker(row)))

    async with aclosing(response_tail.tail(row.pk, 5)) as pieces:
        seen = b"".join([piece async for piece in pieces])

    await worker
    whole = await asyncio.to_thread(replay, who, public(row))
    assert seen == b"".join(records(whole)[6:])


def test_it_is_cancelled_before_anybody_began(who: Chatter) -> None:
    row = in_background(who)

    got = who.client.post(f"{PATH}/{public(row)}/cancel")

    assert got.json()["status"] == "cancelled"
    assert who.spent == "0 0"
    assert work(row).status == "cancelled"
    assert checked(replay(who, public(row)))[-1]["response"]["status"] == "cancelled"


def test_it_stops_upstream_what_is_cancelled(who: Chatter, sandbox: SandboxServer) -> None:
    row = in_background(who, LONG)
    wait = in_a_worker(row)
    until(lambda: told(row))

    got = who.client.post(f"{PATH}/{public(row)}/cancel")
    again = who.client.post(f"{PATH}/{public(row)}/cancel")
    wait()

    assert got.json() == again.json() == get(who, public(row)).json()
    assert got.json()["status"] == "cancelled"
    assert text_of(got.json()) == told(row)
    assert who.spent == "0.1 0"
    [entry] = sandbox.web_entries()
    assert entry["stops"] == 1
    checked(replay(who, public(row)))


def test_it_cancels_nothing_that_has_ended(who: Chatter) -> None:
    row = work(in_background(who))

    assert error_of(who.client.post(f"{PATH}/{public(row)}/cancel")) == (
        400,
        "invalid_request_error",
        "response_id",
        None,
    )


def test_it_stops_what_is_deleted(who: Chatter, sandbox: SandboxServer) -> None:
    row = in_background(who, LONG)
    wait = in_a_worker(row)
    until(lambda: told(row))

    assert who.client.request("DELETE", f"{PATH}/{public(row)}").status_code == 200
    wait()

    assert not ChatResponse.objects.exists()
    assert not ResponseEvents.objects.exists()
    assert sandbox.web_entries()[0]["stops"] == 1
    assert turn_of(row).state == "cancelled"


def test_it_stops_for_a_user_who_is_disabled(who: Chatter) -> None:
    done, mine, foreign = work(in_background(who)), in_background(who), in_background(chatter())

    set_active(who.user, False, actor=None)

    assert [fresh(row).status for row in (done, mine, foreign)] == ["completed", "cancelled", "queued"]
    assert who.spent == "0.1 0"


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


def test_it_costs_nothing_when_the_upstream_gives_nothing(who: Chatter) -> None:
    row = work(in_background(who, "Why? [sandbox:web.invalid]"))

    assert (row.status, row.body["output"]) == ("failed", [])
    assert who.spent == "0 0"
    checked(replay(who, public(row)))


def test_it_is_answered_once_however_often_it_is_rung_for(who: Chatter, sandbox: SandboxServer) -> None:
    row = in_background(who)
    waits = [in_a_worker(row) for _ in range(4)]
    for wait in waits:
        wait()

    assert fresh(row).status == "completed"
    assert len(sandbox.web_requests("/rest/sse/perplexity_ask")) == 1
    checked(replay(who, public(row)))


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


def test_it_rings_for_what_was_lost_and_for_nothing_else(
    who: Chatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, held, new = (in_background(who, f"Question {number}") for number in range(3))
    die(old)
    ChatTurn.objects.filter(pk=held.pk).update(claimed_at=timezone.now(), lease_until=leases.lease_end())
    rung = listen(monkeypatch)

    background.ring_waiting()

    assert rung == [("proxy.answer_response", str(old.pk))]
    assert settling.sweep_turns() == 0
    assert turn_of(new).claimed_at is None


def test_it_rings_the_workers_of_long_answers(
    who: Chatter, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    rung = listen(monkeypatch)

    row = in_background(who)

    assert rung == [("proxy.answer_response", str(row.pk))]
    assert settings.CELERY_TASK_ROUTES["proxy.answer_response"] == {"queue": "stream"}


def test_it_forgets_what_is_older_than_the_operator_keeps(who: Chatter, settings: Settings) -> None:
    old, young = work(in_background(who, conversation="mine")), work(in_background(who))
    ChatResponse.objects.filter(pk=old.pk).update(completed_at=timezone.now() - timedelta(days=8))
    assert responses.forget_old_responses() == 0

    settings.RETENTION_DAYS = 7

    assert responses.forget_old_responses() == 1
    assert get(who, public(old)).status_code == 404
    assert get(who, public(young)).status_code == 200


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


async def test_it_tells_many_readers_the_same(who: Chatter) -> None:
    row = await in_thread(lambda: in_background(who, "Why? [sandbox:duration=1]"))

    async def read() -> bytes:
        async with aclosing(response_tail.tail(row.pk)) as pieces:
            return b"".join([piece async for piece in pieces])

    readers = [asyncio.create_task(read()) for _ in range(30)]
    await asyncio.to_thread(in_a_worker(row))

    seen = set(await asyncio.gather(*readers))
    assert seen == {await asyncio.to_thread(replay, who, public(row))}


async def test_it_tells_a_reader_whose_response_is_deleted(who: Chatter) -> None:
    question = body(background=True, stream=True)
    visit = Visit(who.client.application, "POST", PATH, question, key=who.key)
    await visit.until(b"response.queued")
    row = await ChatResponse.objects.aget()

    await asyncio.to_thread(who.client.request, "DELETE", f"{PATH}/{public(row)}")
    await visit.end()

    assert visit.body.endswith(b"\n\n")
    assert b"event: error" in visit.body
