"""What callers name in `conversation`: a list of items that each response goes on from and adds to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from portal.services import audit
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, NotFound
from proxy.models.responses import ApiConversation, ConversationItem
from proxy.protocol.response_object import Json
from proxy.protocol.responses import ID_PREFIXES

MOST_ITEMS = 2_000
"""Items that are read for a prompt, and that callers may add: no prompt takes more (proxy-contract §2)."""


def find(who: Principal, name: str) -> ApiConversation | None:
    return ApiConversation.objects.filter(user_id=who.user_id, name=name).first()


def find_conversation(who: Principal, name: str) -> ApiConversation:
    """The caller's own; every other name is answered like an unknown one."""
    found = find(who, name)
    if found is None:
        raise _unknown()
    return found


def find_or_make(who: Principal, name: str) -> ApiConversation:
    """An unknown name begins a conversation (proxy-contract §8.4)."""
    return ApiConversation.objects.get_or_create(user_id=who.user_id, name=name)[0]


@transaction.atomic
def make(who: Principal, metadata: Mapping[str, str], items: Sequence[Json]) -> ApiConversation:
    """One with a name of ours."""
    made = ApiConversation.objects.create(
        user_id=who.user_id, name=f"conv_{uuid4().hex}", metadata=dict(metadata)
    )
    _append(made, items)
    return made


def describe(conversation: ApiConversation, metadata: Mapping[str, str]) -> ApiConversation:
    """Replace its metadata. Raises NotFound when it was deleted meanwhile."""
    conversation.metadata = dict(metadata)
    if not ApiConversation.objects.filter(pk=conversation.pk).update(metadata=conversation.metadata):
        raise _unknown()
    return conversation


@transaction.atomic
def delete(who: Principal, conversation: ApiConversation) -> None:
    """The conversation and its items; responses that were made in it stay."""
    ApiConversation.objects.filter(pk=conversation.pk).delete()
    audit.record(who, "api_conversation.deleted", f"conversation:{conversation.pk}")


@transaction.atomic
def add_items(conversation: ApiConversation, items: Sequence[Json]) -> list[Json]:
    """The items with their ids. Raises BadRequest for an id that is taken, and for too many items."""
    _lock(conversation)  # whoever else adds items waits, so that the count holds
    if conversation.items.count() + len(items) > MOST_ITEMS:
        raise BadRequest(f"A conversation has at most {MOST_ITEMS:,} items.", param="items")
    return _append(conversation, items)


def extend(conversation: ApiConversation, items: Sequence[Json], response_id: UUID) -> None:
    """Add what a response was asked and answered, in its transaction; items it has already stay."""
    if _lock(conversation, last_response=response_id):
        rows = _rows(conversation, items)
        ConversationItem.objects.bulk_create(rows, ignore_conflicts=True)


def items_of(conversation: ApiConversation) -> list[Json]:
    """What was said and called in it, in order."""
    items = conversation.items.order_by("-place").values_list("data", flat=True)[:MOST_ITEMS]
    return list(reversed(items))


def page_of(
    conversation: ApiConversation, limit: int, *, backwards: bool, after: str | None = None
) -> tuple[list[Json], bool]:
    """At most `limit` items, and whether more follow. Raises BadRequest for a cursor that is no item."""
    rows: QuerySet[ConversationItem] = conversation.items.order_by("-place" if backwards else "place")
    if after:
        place = conversation.items.filter(item_id=after).values_list("place", flat=True).first()
        if place is None:
            raise BadRequest("after must be the id of an item of this conversation", param="after")
        rows = rows.filter(place__lt=place) if backwards else rows.filter(place__gt=place)
    found = [row.data for row in rows[: limit + 1]]
    return found[:limit], len(found) > limit


def find_item(conversation: ApiConversation, item_id: str) -> ConversationItem:
    found = conversation.items.filter(item_id=item_id).first()
    if found is None:
        raise NotFound("No item with this id exists in the conversation.", code="not_found")
    return found


def delete_item(conversation: ApiConversation, item_id: str) -> None:
    """It is not part of any later prompt."""
    find_item(conversation, item_id).delete()


def _unknown() -> NotFound:
    return NotFound("No conversation with this id exists.", code="not_found")


def _append(conversation: ApiConversation, items: Sequence[Json]) -> list[Json]:
    if not items or not _lock(conversation):
        return []
    named = [{"id": f"{ID_PREFIXES[item['type']]}{uuid4().hex}", **item} for item in items]
    try:
        with transaction.atomic():
            ConversationItem.objects.bulk_create(_rows(conversation, named))
    except IntegrityError:
        raise BadRequest("items holds an id that the conversation has already", param="items") from None
    return named


def _lock(conversation: ApiConversation, **changes: object) -> bool:
    """Also what places are given out under; False when it was deleted meanwhile."""
    rows = ApiConversation.objects.filter(pk=conversation.pk)
    return bool(rows.update(updated_at=timezone.now(), **changes))


def _rows(conversation: ApiConversation, items: Sequence[Json]) -> list[ConversationItem]:
    last = conversation.items.aggregate(last=Max("place"))["last"] or 0
    return [
        ConversationItem(conversation=conversation, place=place, item_id=item["id"], data=item)
        for place, item in enumerate(items, last + 1)
    ]
