"""Takes the words of runs and chats whose text has changed, a batch at a time, in the background.

An entry says by `changed` and `indexed` whether that is due, so what there was before the library is worked
off like everything else, and a process that dies leaves nothing half done. What is written here is the
words alone: who may see an entry is decided at every look (research.services.library).
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import F, QuerySet

from proxy.models.chats import ChatTurn, Conversation
from research.models.library import Kind, LibraryEntry
from research.models.runs import Run
from research.protocol.searching import words_of

INDEX = "research.index"
BATCH = 20
LONGEST_CHAT = 400
"""Turns of a chat whose words are taken, the latest."""


def due() -> QuerySet[LibraryEntry]:
    """Entries whose words are not what their text is now."""
    return LibraryEntry.objects.filter(indexed__lt=F("changed"))


def index_next() -> bool:
    """Take the words of some that are due, the newest first; whether there may be more."""
    batch = list(due().order_by("-id")[:BATCH])
    if batch:
        texts = _texts_of(batch)
        _write({entry: [*marks_of(entry), *words_of(texts.get(entry.item, ""))] for entry in batch})
    return len(batch) == BATCH


def marks_of(entry: LibraryEntry) -> list[str]:
    """Words that no text has: whose it is, to whom it was given, and what else is often asked for. With
    them a common word is not looked up in everybody's texts."""
    marks = [mine(entry.user_id), kind_mark(entry.kind), label_mark(entry.label), status_mark(entry.status)]
    return marks if entry.shared_with_id is None else [*marks, ours(entry.shared_with_id)]


def mine(user_id: int) -> str:
    return f"_u{user_id}"


def ours(team_id: int) -> str:
    return f"_t{team_id}"


def kind_mark(kind: str) -> str:
    return f"_k{kind}"


def label_mark(label: str) -> str:
    """Labels may have any sign; a mark may not."""
    return "_l" + label.encode().hex()


def status_mark(status: str) -> str:
    return f"_s{status}"


def _texts_of(entries: list[LibraryEntry]) -> dict[UUID, str]:
    of_kind = {kind: [entry.item for entry in entries if entry.kind == kind] for kind in Kind.values}
    texts = dict(_runs(of_kind[Kind.RUN]))
    texts.update(_chats(of_kind[Kind.CHAT]))
    return texts


def _runs(ids: list[UUID]) -> Iterator[tuple[UUID, str]]:
    rows = Run.objects.filter(pk__in=ids, hidden_at=None).values_list("pk", "question", "report__text")
    for pk, question, report in rows.order_by():
        yield pk, f"{question}\n{report or ''}"


def _chats(ids: list[UUID]) -> Iterator[tuple[UUID, str]]:
    rows = Conversation.objects.filter(pk__in=ids, hidden_at=None).values_list("pk", "title")
    for pk, title in rows.order_by():
        turns = ChatTurn.objects.filter(conversation=pk).order_by("-created_at", "-id")
        said = turns.values_list("question", "answer")[:LONGEST_CHAT]
        yield pk, "\n".join([title, *(text for turn in said for text in turn)])


def _write(words: dict[LibraryEntry, list[str]]) -> None:
    """Under locks that nobody is waited for: whoever settles several chats at once may hold some. What
    changed while it was read is due again."""
    changed = {entry.pk: entry.changed for entry in words}
    taken = {entry.pk: found for entry, found in words.items()}
    with transaction.atomic(), connection.cursor() as cursor:
        rows = LibraryEntry.objects.select_for_update(skip_locked=True, no_key=True)
        present = [row for row in rows.filter(pk__in=changed) if row.changed == changed[row.pk]]
        for row in present:
            _write_one(cursor, row.pk, taken[row.pk])
            LibraryEntry.objects.filter(pk=row.pk).update(indexed=row.changed)


def _write_one(cursor: CursorWrapper, place: int, words: list[str]) -> None:
    if connection.vendor == "sqlite":
        cursor.execute("DELETE FROM research_librarywords WHERE rowid = %s", [place])
        cursor.execute(
            "INSERT INTO research_librarywords (rowid, words) VALUES (%s, %s)", [place, " ".join(words)]
        )
    else:
        words_column = "UPDATE research_libraryentry SET words = array_to_tsvector(%s) WHERE id = %s"
        cursor.execute(words_column, [words, place])
