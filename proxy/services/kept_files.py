"""Bytes of requests that are kept with a response or a run: files that no list shows.

    keep_bytes   they go in first, in short transactions of their own that hold nobody up
    hold         in the transaction of whatever needs them from then on
    drop_kept    what was not taken after all; what a dead process leaves of these, `tidy_files` deletes

For their room the user's own oldest go: what others keep stays (docs/decisions/0019).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from uuid import UUID, uuid4

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from portal.services.spool import Spool
from portal.wire.errors import BadRequest, TooLarge
from proxy.models.files import FilePiece, ResponseAttachment, StoredFile
from proxy.services.files import MIB, PATIENCE, PIECE, delete_rows, lock_room

MOST_KEPT = 1_000
"""Of one user."""


def keep_bytes(user_id: int, name: str, content_type: str, content: Spool) -> UUID:
    """The file's id. Raises TooLarge where there is no room for it."""
    file, stream = uuid4(), content.open()
    pieces = math.ceil(content.size / PIECE)
    with transaction.atomic():
        lock_room()
        _make_room(user_id, content.size)
        StoredFile.objects.create(
            id=file, user_id=user_id, filename=name, content_type=content_type, size=content.size, kept=True
        )
        FilePiece.objects.create(file_id=file, number=0, data=stream.read(PIECE))
    for number in range(1, pieces):
        try:
            FilePiece.objects.create(file_id=file, number=number, data=stream.read(PIECE))
        except IntegrityError:
            raise _no_room() from None  # it took longer than anybody's patience
    StoredFile.objects.filter(pk=file).update(ready=True)
    return file


def hold(files: Collection[UUID]) -> None:
    """These are whole, and nobody deletes them before the end of the caller's transaction.

    Raises BadRequest when one of them is gone.
    """
    there = StoredFile.objects.select_for_update(no_key=True).filter(pk__in=files, ready=True).order_by("pk")
    if len(there.values_list("pk")) < len(set(files)):
        raise gone()


def drop_kept(files: Collection[UUID]) -> None:
    """Of these, what nobody holds."""
    StoredFile.objects.filter(StoredFile.held_by_none(), pk__in=files, kept=True).delete()


def gone() -> BadRequest:
    return BadRequest("An attachment is no longer kept here: attach it again.", param="input")


def _make_room(user_id: int, size: int) -> None:
    """For `size` bytes more, under the lock."""
    kept = StoredFile.objects.filter(kept=True)
    mine = kept.filter(user_id=user_id)
    everybodys = kept.aggregate(size=Sum("size"))["size"] or 0
    own = mine.aggregate(size=Sum("size"), count=Count("pk"))
    own_size = own["size"] or 0
    largest = min(settings.FILES_USER_MIB * MIB, settings.FILES_TOTAL_MIB * MIB - (everybodys - own_size))
    if size > largest:
        raise _no_room()
    _drop_oldest(_spare(mine), own_size + size - largest, own["count"] + 1 - MOST_KEPT)


def _spare(mine: QuerySet[StoredFile]) -> QuerySet[StoredFile]:
    """Not those that came a moment ago for what is not there yet, or for unsent research."""
    is_said = Exists(ResponseAttachment.objects.filter(file=OuterRef("pk")))
    return mine.filter(is_said | Q(touched_at__lt=timezone.now() - PATIENCE))


def _drop_oldest(spare: QuerySet[StoredFile], excess: int, surplus: int) -> None:
    """As many as have `excess` bytes, and at least `surplus` of them."""
    if excess <= 0 and surplus <= 0:
        return
    oldest: list[UUID] = []
    for file, size in spare.order_by("touched_at").values_list("pk", "size").iterator(chunk_size=50):
        if excess <= 0 and surplus <= 0:
            break
        oldest.append(file)
        excess, surplus = excess - size, surplus - 1
    if excess > 0 or surplus > 0:
        raise _no_room()
    delete_rows(StoredFile.objects.filter(pk__in=oldest))


def _no_room() -> TooLarge:
    return TooLarge("There is no room to keep what is attached: attach less, or wait.", param="input")
