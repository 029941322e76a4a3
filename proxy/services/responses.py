"""Chat through `/v1/responses`: let in, found again, cancelled, deleted, forgotten (proxy-contract §8).

    open_response    answered while its caller waits: turn, row, reservation in one transaction
    queue_response   the same for a worker (background.py), with the first events of its stream

Money, limits and accounts are those of every chat: `chat.open_turn`, `relay`, `settling`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.models.users import User
from portal.services import audit
from portal.services.principal import Principal
from portal.services.queue import ring_after_commit
from portal.wire.errors import BadRequest, RateLimited
from portal.wire.idempotency import reused
from portal.wire.ids import response_id
from proxy.models.chats import ChatTurn
from proxy.models.responses import ApiConversation, ChatResponse
from proxy.protocol.response_functions import as_said, functions_of, read_bridge, turns_of
from proxy.protocol.response_input import check_kept, json_size
from proxy.protocol.response_object import Head, Json, Status, frame
from proxy.protocol.response_once import Once
from proxy.protocol.responses import ResponsesRequest
from proxy.protocol.responses_stream import ResponseStream
from proxy.queries import find_response
from proxy.services import conversations
from proxy.services.attachments import dropped_on_failure, hold_attached, keep_inline
from proxy.services.chat import Busy, ChatPlan, Question, judge_of, open_turn, prepare_chat, queue_turn
from proxy.services.elsewhere import NOWHERE, Elsewhere
from proxy.services.response_history import History, history_for
from proxy.services.response_making import Making
from proxy.services.response_once import being_answered, made_before
from proxy.services.response_rows import BACKGROUND, DOOR, prepared_of, write_events
from proxy.services.settling import end_turn

ANSWER = "proxy.answer_response"
MOST_LIVE = 300
"""Stored responses of a user that may be under way (proxy-contract §8.7)."""
A_BATCH = 200


@dataclass(frozen=True, slots=True)
class Terms:
    """`once`: under which key it is made but once; `elsewhere`: what of its caller's is no chat's."""

    once: Once | None = None
    elsewhere: Elsewhere = NOWHERE


@dataclass(frozen=True, slots=True)
class Asked:
    """A response that may be made: its question, its place in a talk, what of it never changes."""

    who: Principal
    request: ResponsesRequest
    history: History
    question: Question
    head: Head
    terms: Terms

    @property
    def stream(self) -> ResponseStream:
        return ResponseStream(self.head, include_sources=self.request.include_search_sources)


@dataclass(frozen=True, slots=True)
class Opened:
    """One that is answered while its caller waits. Without a plan, `take` finds a place for it."""

    question: Question
    making: Making
    plan: ChatPlan | None
    take: Callable[[], ChatPlan]


def open_response(who: Principal, request: ResponsesRequest, terms: Terms = Terms()) -> Opened:
    """Raises BadRequest, NotFound, Conflict, RateLimited, Unavailable; nothing is kept then."""
    asked = _with_attached(_prepare(who, request, DOOR, terms))
    take = partial(_open, asked)
    plan: ChatPlan | None
    with dropped_on_failure(asked.question.enclosures):
        try:
            plan = take()
        except Busy:
            plan = None
    making = Making(
        asked.question,
        asked.stream,
        stored=request.store,
        keeps_events=request.store and request.stream,
        judge=judge_of(asked.question),
    )
    return Opened(asked.question, making, plan, take)


@dataclass(frozen=True, slots=True)
class Queued:
    question: Question
    row: ChatResponse


def queue_response(who: Principal, request: ResponsesRequest, terms: Terms = Terms()) -> Queued:
    """A response that a worker will make. Raises what `open_response` raises."""
    asked = _with_attached(_prepare(who, request, BACKGROUND, terms))
    with dropped_on_failure(asked.question.enclosures), _once(asked), transaction.atomic():
        queue_turn(asked.question)
        row = _insert(asked, "queued", prepared_of(asked.question, request))
        write_events(row.pk, asked.stream.open(queued=True))
        ring_after_commit(ANSWER, str(row.pk))
    return Queued(asked.question, row)


def cancel_response(who: Principal, row: ChatResponse) -> ChatResponse:
    """Stop a background response, or a stream that a worker took over: the worker notices within a second,
    and tells the upstream.

    One that is cancelled stays as it is; what has ended otherwise cannot be: BadRequest.
    """
    if not row.background and _turn_of_worker(row) is None:
        raise BadRequest("Only a background response can be cancelled.", param="response_id")
    with transaction.atomic():
        stopped = _stop(row)
        if stopped:
            audit.record(who, "response.cancelled", f"response:{row.pk}")
    row = find_response(who, row.pk)
    if row.status != ChatResponse.Status.CANCELLED:
        raise BadRequest(f"The response is {row.status}: it cannot be cancelled.", param="response_id")
    return row


def lock_turns_of_disabled(sender: object, user: User, **signal: object) -> None:
    """Before any credits move: a worker that ends one of them has its row before it asks for the ledger's."""
    live = ChatResponse.objects.filter(user_id=user.pk, completed_at=None).values("pk")
    turns = ChatTurn.objects.filter(pk__in=live, state=ChatTurn.State.OPEN, door=BACKGROUND)
    list(turns.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))


def stop_responses_of_disabled(sender: object, user: User, actor: Principal | None, **signal: object) -> None:
    """Nobody is left who could read them."""
    for row in ChatResponse.objects.filter(user_id=user.pk, completed_at=None):
        if _stop(row):
            audit.record(actor, "response.cancelled", f"response:{row.pk}")


@transaction.atomic
def delete_response(who: Principal, row: ChatResponse) -> None:
    """What was said is gone for good; what a worker answers is stopped."""
    _stop(row)
    ChatResponse.objects.filter(pk=row.pk).delete()
    audit.record(who, "response.deleted", f"response:{row.pk}")


def forget_old_responses() -> int:
    """Retention (SPEC 10.1): what ended longer ago than RETENTION_DAYS goes, in batches; how many."""
    if not settings.RETENTION_DAYS:
        return 0
    before, total = timezone.now() - timedelta(days=settings.RETENTION_DAYS), 0
    while gone := _forget_batch(before):
        total += gone
    while _forget_conversations(before):
        pass
    return total


def _forget_batch(before: object) -> int:
    old = ChatResponse.objects.filter(completed_at__lt=before).order_by("completed_at")
    batch = list(old.values_list("pk", flat=True)[:A_BATCH])
    ChatResponse.objects.filter(pk__in=batch).delete()
    return len(batch)


def _forget_conversations(before: object) -> int:
    old = ApiConversation.objects.filter(updated_at__lt=before).order_by("updated_at")
    batch = list(old.values_list("pk", flat=True)[:A_BATCH])
    ApiConversation.objects.filter(pk__in=batch).delete()
    return len(batch)


def _stop(row: ChatResponse) -> bool:
    turn = _turn_of_worker(row)
    return turn is not None and end_turn(turn, ChatTurn.State.CANCELLED)


def _turn_of_worker(row: ChatResponse) -> ChatTurn | None:
    """None where its caller is waiting for it, or was."""
    return ChatTurn.objects.filter(pk=row.pk, door=BACKGROUND).first()


def _prepare(who: Principal, request: ResponsesRequest, door: str, terms: Terms) -> Asked:
    """Every check that costs nothing; nothing is written."""
    history = history_for(who, request, terms.elsewhere)
    if request.store:
        check_kept("input", sum(map(json_size, _said(history, request))))
    bridge = read_bridge(request, history.past)
    question = prepare_chat(
        who,
        replace(request.chat(history.past.messages), bridge=bridge),
        door,
        extra_instructions=request.format_instructions,
        param="input",
        inherited=history.attached,
    )
    question = replace(question, is_once=terms.once is not None)
    head = Head(
        response_id(question.turn_id),
        int(question.asked_at.timestamp()),
        request.model,
        _echo(request, history) if bridge else request.echo,
        history.previous,
        request.conversation,
    )
    return Asked(who, request, history, question, head, terms)


def _with_attached(asked: Asked) -> Asked:
    """The bytes of a stored one are written before anything is locked that others wait for."""
    if not asked.request.store:
        return asked
    kept = keep_inline(asked.who.user_id, asked.question.enclosures)
    return replace(asked, question=replace(asked.question, enclosures=kept))


def _echo(request: ResponsesRequest, history: History) -> Mapping[str, Any]:
    """Definitions that were left out are those of the response before; nothing may be called then."""
    if request.functions:
        return request.echo
    kept = [*request.echo["tools"], *functions_of(history.past.functions)]
    return {**request.echo, "tools": kept, "tool_choice": "none"}


def _open(asked: Asked) -> ChatPlan:
    with _once(asked), transaction.atomic():
        plan = open_turn(asked.question)
        request = asked.request
        if request.store:
            _insert(asked, "in_progress", prepared_of(asked.question, request) if request.stream else None)
    return plan


@contextmanager
def _once(asked: Asked) -> Iterator[None]:
    """A lost race for an idempotency key is BeingAnswered: nothing of the loser is kept."""
    try:
        yield
    except IntegrityError:
        won = made_before(asked.who, asked.terms.once) if asked.terms.once else None
        if won is None:
            raise
        raise being_answered(won) from None


def _insert(asked: Asked, status: Status, prepared: dict[str, Any] | None = None) -> ChatResponse:
    who, request, question = asked.who, asked.request, asked.question
    _respect_most(who)
    name, once = request.conversation, asked.terms.once
    if once and asked.terms.elsewhere.has_key(who, once.key):
        raise reused()
    row = ChatResponse(
        id=question.turn_id,
        user_id=who.user_id,
        key_id=who.key_id,
        conversation=conversations.find_or_make(who, name) if name else None,
        status=status,
        background=request.background,
        body=frame(asked.head, status),
        input_items=list(request.input_items(asked.head.id)),
        said=_said(asked.history, request),
        prepared=prepared,
        idempotency_key=once.key if once else None,
        fingerprint=once.fingerprint if once else None,
        created_at=question.asked_at,
    )
    row.save(force_insert=True)
    hold_attached(row.pk, question.enclosures)
    return row


def _said(history: History, request: ResponsesRequest) -> list[list[str]]:
    """What a next response goes on from: instructions are of one response only."""
    return as_said((*history.past.turns, *turns_of(item.data for item in request.items)))


def _respect_most(who: Principal) -> None:
    live = ChatResponse.objects.filter(user_id=who.user_id, completed_at=None)
    if live[:MOST_LIVE].count() >= MOST_LIVE:
        raise RateLimited(
            f"{MOST_LIVE} responses are under way: wait for one of them to end.",
            code="rate_limit_exceeded",
            headers={"Retry-After": "10"},
        )


def page_of_input(
    row: ChatResponse, limit: int, *, backwards: bool, after: str | None = None, before: str | None = None
) -> tuple[list[Json], bool]:
    """At most `limit` items, and whether more follow. Raises BadRequest for a cursor that is no item."""
    items: list[Json] = row.input_items[::-1] if backwards else row.input_items
    places = {item["id"]: place for place, item in enumerate(items)}
    start = _place(places, "after", after) + 1 if after else 0
    end = _place(places, "before", before) if before else len(items)
    found = items[start:end]
    return found[:limit], len(found) > limit


def _place(places: Mapping[str, int], name: str, cursor: str) -> int:
    if cursor not in places:
        raise BadRequest(f"{name} must be the id of an item of this response", param=name)
    return places[cursor]
