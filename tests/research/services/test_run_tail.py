from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

import pytest
from django.db import transaction
from django.db.models import F

from portal.api.threads import run_in_database
from portal.live.news import News
from portal.services.credits import refund_charge
from portal.services.principal import Principal
from portal.wire.errors import NotFound
from portal.wire.sse import SseDecoder, SseRecord
from research.models.reports import Report
from research.models.runs import Run
from research.protocol.states import State
from research.services import moves
from research.services.delete import delete_run
from research.services.money import end_run
from research.services.moves import Event
from research.services.run_tail import events_written, tail
from research.services.sharing import share_run, take_back_run
from research.services.views import view_for
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = "High tide is at 06:40. " * 5_000


@pytest.fixture
def who() -> Principal:
    return somebody()


def note(run: Run, kind: str, **data: object) -> None:
    """One row of the log, as workers write them."""
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(event_seq=F("event_seq") + 1)
        moves.log(run, State(run.state), [Event(kind, data)])


def finish(run: Run, state: State = State.COMPLETED) -> None:
    Run.objects.filter(pk=run.pk).update(state=State.RUNNING, backend="agent")
    run.refresh_from_db()
    report = Report(run=run, text=TEXT, html="", model="m") if state is State.COMPLETED else None
    end_run(run, state, report=report)


def research(run: Run) -> None:
    note(run, "submitting", backend="agent", again=False)
    note(run, "progress", queries=["tides"], pages=[])


def read(
    run: Run,
    after: int = -1,
    *,
    meanwhile: Callable[[int], object] = lambda piece: None,
    by: Principal | None = None,
) -> bytes:
    """All that a reader gets, the run's user if nobody else is named; `meanwhile` is told, in a thread,
    how many pieces have come."""
    reader = by or Principal(run.user_id, frozenset())

    async def scene() -> bytes:
        pieces: list[bytes] = []
        news = News(events_written, run_in_database, pause=0.01)
        async with (
            asyncio.timeout(30),
            aclosing(tail(view_of_run, news, reader, after=after)) as parts,
        ):
            async for part in parts:
                pieces.append(part)
                await run_in_database(partial(meanwhile, len(pieces)))
        return b"".join(pieces)

    view_of_run = view_for(reader, Run.objects.select_related("report").get(pk=run.pk))
    return asyncio.run(scene())


def records(stream: bytes) -> list[SseRecord]:
    return SseDecoder().feed(stream)


def test_it_tells_an_ended_run_whole_and_closes(who: Principal) -> None:
    run = ask(who)
    research(run)
    finish(run)
    told = records(read(run))
    assert [told[0].event, told[-1].event] == ["response.created", "response.completed"]
    last = json.loads(told[-1].data)["response"]
    assert last["output_text"] == TEXT
    assert last["output"][0]["summary"][0]["text"].endswith("Searching: tides")


def test_it_tells_the_same_bytes_again_to_whoever_looked_on(who: Principal) -> None:
    run = ask(who)
    happenings = {1: partial(research, run), 2: partial(finish, run)}
    live = read(run, meanwhile=lambda pieces: happenings.get(pieces, lambda: None)())
    assert live == read(run) == read(run)


def test_it_tells_exactly_the_rest_after_any_event(who: Principal) -> None:
    run = ask(who)
    research(run)
    finish(run)
    told = records(read(run))
    for after in (0, 1, 2, 5, len(told) - 2, len(told) - 1):
        assert records(read(run, after)) == told[after + 1 :]


def test_it_says_at_once_that_it_is_there_when_there_is_nothing_to_tell(who: Principal) -> None:
    run = ask(who)
    finish(run, State.FAILED)
    assert read(run, 900) == b": connected\n\n"


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED])
def test_it_tells_a_run_as_it_ended_whatever_was_given_back_since(who: Principal, state: State) -> None:
    run = ask(who)
    finish(run, state)
    before = read(run)
    if state is State.COMPLETED:
        refund_charge(run.subject, reason="It was late.", actor=None)
        run.refresh_from_db()
        assert run.credits_refunded == run.price
    assert read(run) == before
    shown = json.loads(records(before)[-1].data)["response"]["usage"]["pocket_search"]
    assert shown["credits_refunded"] == (0 if state is State.COMPLETED else shown["credits_charged"])


def test_it_ends_for_who_looks_on_when_the_run_is_deleted(who: Principal) -> None:
    run = ask(who)
    stream = read(run, meanwhile=lambda pieces: delete_run(who, run.pk) if pieces == 1 else None)
    last = json.loads(records(stream)[-1].data)["response"]
    assert last["status"] == "cancelled"


def test_it_tells_a_reader_until_the_run_is_taken_back(who: Principal) -> None:
    run = ask(who, metadata={"ours": "alone"})
    share_run(who, run.pk)
    reader = somebody()
    pieces: list[int] = []

    def take_back_first(piece: int) -> None:
        pieces.append(piece)
        if piece == 1:
            take_back_run(who, run.pk)
            finish(run)

    with pytest.raises(NotFound):
        read(run, meanwhile=take_back_first, by=reader)
    share_run(who, run.pk)
    told = read(run, by=reader)

    assert pieces == [1]
    assert records(told)[-1].event == "response.completed"
    assert b"asked this and shared it" in told
    assert b"alone" not in told


def test_it_breaks_off_when_retention_takes_the_report(who: Principal) -> None:
    run = ask(who)
    finish(run)
    Report.objects.filter(run=run).delete()
    with pytest.raises(NotFound):
        read(run)


def test_it_breaks_off_when_there_is_no_run(who: Principal) -> None:
    news, never_there = News(events_written, run_in_database), Run(user_id=who.user_id)
    with pytest.raises(NotFound):
        asyncio.run(anext(tail(view_for(who, never_there), news, who)))


def test_it_writes_a_long_report_in_pieces(who: Principal) -> None:
    run = ask(who)
    finish(run)
    sizes: list[int] = []
    whole = read(run, meanwhile=sizes.append)
    assert len(sizes) > 3
    assert len(whole) > 5 * len(TEXT)
