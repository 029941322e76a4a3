"""Reads of chats that more than one place needs. What is not the person's does not exist here."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet

from portal.services.principal import Principal
from portal.wire.errors import no_response, not_found
from proxy.models.chats import ChatTurn, Conversation
from proxy.models.responses import ChatResponse


@dataclass(frozen=True, slots=True)
class Page:
    conversations: list[Conversation]
    has_more: bool


def visible_conversations(who: Principal) -> QuerySet[Conversation]:
    return Conversation.objects.filter(user_id=who.user_id, hidden_at=None)


def find_conversation(who: Principal, conversation_id: UUID) -> Conversation:
    """The person's own; every other id is answered like an unknown one."""
    found = visible_conversations(who).filter(pk=conversation_id).first()
    if found is None:
        raise not_found()
    return found


def list_conversations(who: Principal, limit: int, after: UUID | None = None) -> Page:
    """Last used first; `after` is the last one of the page before."""
    rows = visible_conversations(who)
    if after is not None:
        last = find_conversation(who, after)
        rows = rows.filter(Q(updated_at__lt=last.updated_at) | Q(updated_at=last.updated_at, pk__lt=last.pk))
    found = list(rows.order_by("-updated_at", "-id")[: limit + 1])
    return Page(found[:limit], len(found) > limit)


def turns_of(conversation: Conversation) -> list[ChatTurn]:
    """All of them, in the order in which they were asked."""
    return list(ChatTurn.objects.filter(conversation=conversation).order_by("created_at", "id"))


def last_turn(who: Principal) -> ChatTurn | None:
    """What the person asked last in the dashboard."""
    return ChatTurn.objects.filter(user_id=who.user_id).exclude(conversation=None).first()


def visible_responses(who: Principal) -> QuerySet[ChatResponse]:
    return ChatResponse.objects.filter(user_id=who.user_id)


def find_response(who: Principal, response_id: UUID | None) -> ChatResponse:
    """The caller's own, as far as it is shown; every other id is answered like an unknown one."""
    rows = visible_responses(who).defer("said", "prepared", "thread")
    found = rows.filter(pk=response_id).first() if response_id else None
    if found is None:
        raise no_response()
    return found
