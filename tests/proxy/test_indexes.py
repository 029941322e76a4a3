"""Every read of responses that is made often, or of a table that grows for ever, begins at an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from proxy.models.responses import ApiConversation, ChatResponse, ConversationItem, ResponseEvents
from proxy.services import background

NOW = timezone.now()
READS: dict[str, tuple[Callable[[], QuerySet[Any]], str]] = {
    "what waits for a worker": (lambda: background.waiting(NOW)[:50], "chat_turn_open"),
    "under way": (
        lambda: ChatResponse.objects.filter(user_id=1, completed_at=None).order_by()[:300],
        "chat_response_live_by_user",
    ),
    "retention": (
        lambda: ChatResponse.objects.filter(completed_at__lt=NOW).order_by("completed_at")[:200],
        "chat_response_by_age",
    ),
    "events": (
        lambda: ResponseEvents.objects.filter(response_id=uuid4(), last__gt=3).order_by("first")[:50],
        "(response_id=?)",
    ),
    "a conversation": (
        lambda: ApiConversation.objects.filter(user_id=1, name="mine").order_by(),
        "(user_id=? AND name=?)",
    ),
    "old conversations": (
        lambda: ApiConversation.objects.filter(updated_at__lt=NOW).order_by("updated_at")[:200],
        "api_conversation_by_age",
    ),
    "items": (
        lambda: ConversationItem.objects.filter(conversation=uuid4(), place__gt=3).order_by("place")[:21],
        "(conversation_id=? AND place>?)",
    ),
    "an item": (
        lambda: ConversationItem.objects.filter(conversation=uuid4(), item_id="msg_a").order_by(),
        "(conversation_id=? AND item_id=?)",
    ),
}


@pytest.mark.embedded
@pytest.mark.django_db
@pytest.mark.parametrize("read", READS)
def test_it_reads_by_an_index_and_sorts_nothing(read: str) -> None:
    rows, index = READS[read]
    plan = rows().explain()
    assert index in plan, plan
    assert "TEMP B-TREE" not in plan, plan
