"""What callers name in `conversation`: a list of items that each response goes on from and adds to."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Max
from django.utils import timezone

from portal.services.principal import Principal
from proxy.models.responses import ApiConversation, ConversationItem
from proxy.protocol.chat_messages import ChatMessage
from proxy.protocol.response_input import messages_of
from proxy.protocol.response_object import Json

MOST_ITEMS = 2_000
"""Items that are read for a prompt: no prompt takes more (proxy-contract §2)."""


def find(who: Principal, name: str) -> ApiConversation | None:
    return ApiConversation.objects.filter(user_id=who.user_id, name=name).first()


def find_or_make(who: Principal, name: str) -> ApiConversation:
    """An unknown name begins a conversation (proxy-contract §8.4)."""
    return ApiConversation.objects.get_or_create(user_id=who.user_id, name=name)[0]


def history_of(conversation: ApiConversation) -> tuple[ChatMessage, ...]:
    """What was said in it, in order."""
    items = conversation.items.order_by("-place").values_list("data", flat=True)[:MOST_ITEMS]
    return messages_of(reversed(items))


def extend(conversation: ApiConversation, items: Sequence[Json], response_id: UUID | None = None) -> None:
    """Add items at its end, in the caller's transaction; those it has already stay as they are."""
    changes = {"updated_at": timezone.now(), **({"last_response": response_id} if response_id else {})}
    # Also the lock under which places are given out.
    if not ApiConversation.objects.filter(pk=conversation.pk).update(**changes):
        return
    last = conversation.items.aggregate(last=Max("place"))["last"] or 0
    ConversationItem.objects.bulk_create(
        [
            ConversationItem(conversation=conversation, place=place, item_id=item["id"], data=item)
            for place, item in enumerate(items, last + 1)
        ],
        ignore_conflicts=True,
    )
