"""Files come in piece by piece, are read the same way, and go: by their owner, or when their time is over.

They are rows (docs/decisions/0019): what one process took, every other can read, a deletion takes the
bytes along, and there is no path that a name could lead out of. An upload that ends half way, however
that comes, leaves a file that is not `ready`: it is there for nobody, and tidied away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from portal.services import audit
from portal.services.principal import Principal
from portal.wire.errors import TooLarge, Unavailable
from proxy.models.accounts import Duty
from proxy.models.files import FilePiece, StoredFile
from proxy.protocol.file_form import FRAMING, FileWish
from proxy.protocol.files import FileView, Listing, no_such_cursor, no_such_file

PIECE = 1024 * 1024
"""Bytes of a row."""
MIB = 1024 * 1024
MOST_FILES = 10_000
"""Of one user."""
PATIENCE = timedelta(minutes=15)
"""After so long without a piece an upload is given up."""
A_SWEEP = 100
LOCK = "files"


@dataclass(frozen=True, slots=True)
class Page:
    files: list[FileView]
    has_more: bool


@dataclass(slots=True)
class Upload:
    """A file on its way in. Whoever gives it up calls `drop`; nobody else sees it before `finish`."""

    who: Principal
    file_id: UUID = field(default_factory=uuid4)
    pieces: int = 0

    def add(self, data: bytes) -> None:
        """The next `PIECE` bytes, or the last ones. Raises TooLarge when there is no room for them, and
        Unavailable when the upload was given up meanwhile."""
        with transaction.atomic():
            lock_room()
            _check_room(self.who, len(data))
            if not self.pieces:
                _check_count(self.who)
                StoredFile.objects.create(id=self.file_id, user_id=self.who.user_id)
            mine = StoredFile.objects.filter(pk=self.file_id, ready=False)
            if not mine.update(size=F("size") + len(data), touched_at=timezone.now()):
                raise _given_up()
            FilePiece.objects.create(file_id=self.file_id, number=self.pieces, data=data)
        self.pieces += 1

    def finish(self, wish: FileWish) -> FileView:
        """Raises Unavailable when the upload was given up meanwhile."""
        now = timezone.now()
        life = wish.expires_seconds
        expires_at = None if life is None else now + timedelta(seconds=life)
        with transaction.atomic():
            arrived = StoredFile.objects.filter(pk=self.file_id, ready=False).update(
                ready=True,
                filename=wish.filename,
                content_type=wish.content_type,
                purpose=wish.purpose,
                created_at=now,
                expires_at=expires_at,
            )
            if not arrived:
                raise _given_up()
            audit.record(self.who, "file.created", f"file:{self.file_id}", purpose=wish.purpose)
            return _view(StoredFile.objects.get(pk=self.file_id))

    def drop(self) -> None:
        if self.pieces:
            StoredFile.objects.filter(pk=self.file_id, ready=False).delete()


def begin_upload(who: Principal, announced: float) -> Upload:
    """`announced` are the bytes of the whole form. Raises TooLarge before one of them is read."""
    _check_room(who, 1 if announced == float("inf") else max(1, int(announced) - FRAMING))
    _check_count(who)
    return Upload(who)


def list_files(who: Principal, wanted: Listing) -> Page:
    """Raises BadRequest for a cursor that is not in the list."""
    rows = visible_files(who)
    if wanted.purpose:
        rows = rows.filter(purpose=wanted.purpose)
    if wanted.after is not None:
        last = visible_files(who).filter(pk=wanted.after).first()
        if last is None:
            raise no_such_cursor()
        rows = rows.filter(_beyond(last, newer=wanted.order == "asc"))
    order = ("created_at", "id") if wanted.order == "asc" else ("-created_at", "-id")
    found = list(rows.order_by(*order)[: wanted.limit + 1])
    return Page([_view(file) for file in found[: wanted.limit]], len(found) > wanted.limit)


def find_file(who: Principal, identity: UUID | None) -> FileView:
    """The caller's own; every other id is answered like an unknown one."""
    return _view(_find(who, identity))


def delete_file(who: Principal, identity: UUID | None) -> None:
    with transaction.atomic():
        file = _find(who, identity)
        if not delete_rows(StoredFile.objects.filter(pk=file.pk)):
            raise no_such_file()
        audit.record(who, "file.deleted", f"file:{file.pk}")


def read_piece(identity: UUID, number: int) -> bytes | None:
    """None beyond the last one, and of a file that has gone meanwhile."""
    rows = FilePiece.objects.filter(file_id=identity, number=number, file__ready=True)
    data = rows.values_list("data", flat=True).first()
    return None if data is None else bytes(data)


def read_file(identity: UUID) -> Iterator[bytes]:
    """All of it. The caller has made sure whose it is."""
    number = 0
    while (data := read_piece(identity, number)) is not None:
        yield data
        number += 1


def visible_files(who: Principal) -> QuerySet[StoredFile]:
    alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return StoredFile.objects.filter(alive, user_id=who.user_id, ready=True, kept=False)


def tidy_files() -> int:
    """Delete what has expired, what RETENTION_DAYS no longer keep, and uploads that nobody goes on with.
    Returns how many that were."""
    now, total = timezone.now(), 0
    past = [
        Q(expires_at__lte=now),
        Q(ready=False, touched_at__lt=now - PATIENCE),
        Q(StoredFile.held_by_none(), kept=True, touched_at__lt=now - PATIENCE),
    ]
    if settings.RETENTION_DAYS:
        past.append(Q(kept=False, created_at__lt=now - timedelta(days=settings.RETENTION_DAYS)))
    for condition in past:
        while batch := list(StoredFile.objects.filter(condition).values_list("pk", flat=True)[:A_SWEEP]):
            # Once more with the condition: an upload may have gone on.
            with transaction.atomic():
                delete_rows(StoredFile.objects.filter(condition, pk__in=batch))
            total += len(batch)
    return total


def delete_rows(rows: QuerySet[StoredFile]) -> int:
    """In a transaction. They are locked before it is looked who holds them: whoever is about to hold one
    was first, or finds none."""
    found = list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    StoredFile.objects.filter(pk__in=found).delete()
    return len(found)


def _given_up() -> Unavailable:
    return Unavailable("The upload took too long: send the file again.")


def _find(who: Principal, identity: UUID | None) -> StoredFile:
    file = visible_files(who).filter(pk=identity).first() if identity else None
    if file is None:
        raise no_such_file()
    return file


def _beyond(last: StoredFile, *, newer: bool) -> Q:
    if newer:
        return Q(created_at__gt=last.created_at) | Q(created_at=last.created_at, pk__gt=last.pk)
    return Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk)


def lock_room() -> None:
    """Whoever adds bytes is alone with that until the end of the transaction: limits are exact."""
    if not Duty.objects.filter(pk=LOCK).update(due_at=timezone.now()):
        Duty.objects.get_or_create(name=LOCK, defaults={"due_at": timezone.now()})
        Duty.objects.filter(pk=LOCK).update(due_at=timezone.now())


def _check_room(who: Principal, more: int) -> None:
    """Raises TooLarge. What is on its way in counts too, what responses keep does not."""
    listed = StoredFile.objects.filter(kept=False)
    limits = ((listed.filter(user_id=who.user_id), settings.FILES_USER_MIB, "your files"),
              (listed, settings.FILES_TOTAL_MIB, "the portal's files"))  # fmt: skip
    for rows, mebibytes, whose in limits:
        used = rows.aggregate(size=Sum("size"))["size"] or 0
        if used + more > mebibytes * MIB:
            told = f"There is no room left among {whose}: {mebibytes} MiB are all they may take."
            raise TooLarge(told, param="file")


def _check_count(who: Principal) -> None:
    if StoredFile.objects.filter(user_id=who.user_id, kept=False).count() >= MOST_FILES:
        raise TooLarge(f"You have {MOST_FILES:,} files: delete some first.", param="file")


def _view(file: StoredFile) -> FileView:
    return FileView(file.pk, file.filename, file.purpose, file.size, file.created_at, file.expires_at)
