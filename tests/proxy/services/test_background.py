"""Background responses: queued, made by a worker, followed, cancelled, taken over, forgotten."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.services import queue
from portal.services.ledger_check import check
from portal.services.users import set_active
from portal.wire.errors import Unavailable
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse, ResponseEvents
from proxy.services import background, leases, response_tail, responses, settling
from proxy.services.accounts import take_account
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
from tests.proxy.services.workers import die, in_a_worker, told, turn_of, until
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


def listen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is rung for from now on; nobody hears it."""
    bell = queue.Bell()
    rung: list[tuple[str, ...]] = []
    monkeypatch.setattr(bell, "ring", lambda task, *arguments: rung.append((task, *arguments)))
    monkeypatch.setattr(queue, "_bell", bell)
    return rung


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


def test_it_begins_nothing_that_is_cancelled_as_it_is_claimed(who: Chatter) -> None:
    row = in_background(who)
    claimed_at, stale = background._claim(row.pk), turn_of(row)
    assert claimed_at is not None
    who.client.post(f"{PATH}/{public(row)}/cancel")

    with pytest.raises(Unavailable):
        background._begin(stale, claimed_at)


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


@pytest.mark.cluster
def test_it_is_written_down_while_somebody_has_its_account(who: Chatter, pool: WebAccount) -> None:
    """Whoever takes an account goes on to turns: who has a turn must not wait for the account."""
    row = in_background(who, "Why? [sandbox:first-frame=1]")
    wait = in_a_worker(row)
    until(lambda: turn_of(row).account)
    with transaction.atomic():
        assert take_account(tier_needed="free", counted=False)
        until(lambda: told(row))
    wait()


def test_it_forgets_what_is_older_than_the_operator_keeps(who: Chatter, settings: Settings) -> None:
    old, young = work(in_background(who, conversation="mine")), work(in_background(who))
    ChatResponse.objects.filter(pk=old.pk).update(completed_at=timezone.now() - timedelta(days=8))
    assert responses.forget_old_responses() == 0

    settings.RETENTION_DAYS = 7

    assert responses.forget_old_responses() == 1
    assert get(who, public(old)).status_code == 404
    assert get(who, public(young)).status_code == 200


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
