"""Finds entries of the library: one statement for all lists, with words or without.

What a person typed is in the parameters alone. A page is asked for in its order and stops where it is full;
whose an entry is stands in the index of words, too, so that nobody's texts are looked through for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from portal.models.teams import Team
from portal.services.principal import Principal
from research.models.library import Kind, LibraryEntry
from research.protocol.searching import Query
from research.services.library_index import kind_mark, label_mark, mine, ours, status_mark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENTRY = ", ".join(f"e.{f.column}" for f in LibraryEntry._meta.concrete_fields)
HITS = {
    "": "research_libraryentry e",
    # Words first, and from the newest on: it stops as soon as a page is full.
    "sqlite": (
        "research_librarywords w CROSS JOIN research_libraryentry e ON e.id = w.rowid"
        " AND w.research_librarywords MATCH %s"
    ),
    # OFFSET 0: nothing but the index of words may decide what is looked at.
    "postgresql": "(SELECT * FROM research_libraryentry WHERE words @@ CAST(%s AS tsquery) OFFSET 0) e",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ends; the next begins behind it."""

    at: datetime
    id: int

    def __str__(self) -> str:
        return f"{(self.at - EPOCH) // timedelta(microseconds=1)}.{self.id}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for; `query` None lists all.

    `kind` is run, chat, shared or ""; `label` a preset's name or a model's id; `status` as an entry has it;
    `since` is within, `until` is not.
    """

    query: Query | None = None
    kind: str = ""
    status: str = ""
    label: str = ""
    tag: str = ""
    since: datetime | None = None
    until: datetime | None = None


def place_of(text: str) -> Place | None:
    """As `str(place)` gave it; None for what nobody gave."""
    moment, dot, number = text.partition(".")
    if not (dot and moment.isascii() and moment.isdigit() and number.isascii() and number.isdigit()):
        return None
    if len(moment) > 17 or len(number) > 18:
        return None
    return Place(EPOCH + timedelta(microseconds=int(moment)), int(number))


def find_entries(
    who: Principal, team: Team | None, wanted: Wanted, limit: int, after: Place | None
) -> list[LibraryEntry]:
    """The person's own and what they were given, each in its order, and of these the first."""
    if wanted.query is not None and not wanted.query:
        return []
    conditions, values = _conditions(who, wanted, after)
    order = "at DESC, id DESC" if wanted.query is None else "id DESC"
    looks = []
    if wanted.kind != "shared":
        looks.append(_look(wanted, mine(who.user_id), "e.user_id = %s", [who.user_id]))
    if team and wanted.kind != "chat":
        others = "" if wanted.kind == "shared" else " AND e.user_id <> %s"
        given = (
            "e.shared_with_id = %s AND e.user_id IN"
            f" (SELECT user_id FROM portal_membership WHERE team_id = %s){others}"
        )
        asked = [team.pk, team.pk, *([] if wanted.kind == "shared" else [who.user_id])]
        looks.append(_look(wanted, ours(team.pk), given, asked))
    by = "e.at DESC, e.id DESC" if wanted.query is None else f"{_place()} DESC"
    first = f"ORDER BY {by} LIMIT {limit}"
    part = "SELECT * FROM (SELECT {columns} FROM {source} WHERE {whose}{conditions} {first}) AS part"
    statement = " UNION ALL ".join(
        part.format(columns=ENTRY, source=source, whose=whose, conditions=conditions, first=first)
        for source, whose, _, _ in looks
    )
    parameters = [value for _, _, match, asked in looks for value in (*match, *asked, *values)]
    return list(LibraryEntry.objects.raw(f"{statement} ORDER BY {order} LIMIT {limit}", parameters))


def _look(wanted: Wanted, mark: str, whose: str, asked: list[Any]) -> tuple[str, str, list[Any], list[Any]]:
    """Where entries come from, whose they have to be, and the values that each of both asks for."""
    if wanted.query is None:
        return HITS[""], whose, [], asked
    return HITS[connection.vendor], whose, [_match(wanted, wanted.query, mark)], asked


def _match(wanted: Wanted, query: Query, mark: str) -> str:
    """What the index of words is asked for. Words hold neither quotes nor any other sign."""
    words = [mark, *query.words]
    if wanted.kind in Kind.values:
        words.append(kind_mark(wanted.kind))
    if wanted.label:
        words.append(label_mark(wanted.label))
    if wanted.status and wanted.status != "live":
        words.append(status_mark(wanted.status))
    if connection.vendor == "sqlite":
        return " ".join([f'"{word}"' for word in words] + ([f'"{query.prefix}" *'] if query.prefix else []))
    return " & ".join([f"'{word}'" for word in words] + ([f"'{query.prefix}':*"] if query.prefix else []))


def _conditions(who: Principal, wanted: Wanted, after: Place | None) -> tuple[str, list[Any]]:
    found: list[tuple[str, list[Any]]] = []
    if wanted.kind in Kind.values:
        found.append(("e.kind = %s", [wanted.kind]))
    if wanted.status:
        found.append(("e.status = %s", [wanted.status]))
    if wanted.label:
        found.append(("e.label = %s", [wanted.label]))
    if wanted.since:
        found.append(("e.at >= %s", [_stored(wanted.since)]))
    if wanted.until:
        found.append(("e.at < %s", [_stored(wanted.until)]))
    if wanted.tag:
        tagged = "e.item IN (SELECT item FROM research_librarytag WHERE user_id = %s AND name = %s)"
        found.append((tagged, [who.user_id, wanted.tag]))
    if after and wanted.query is not None:
        found.append((f"{_place()} < %s", [after.id]))
    elif after:
        at = _stored(after.at)
        # The first says nothing new, but it is the one that an index can begin at.
        found.append(("e.at <= %s AND NOT (e.at = %s AND e.id >= %s)", [at, at, after.id]))
    return "".join(f" AND {sql}" for sql, _ in found), [value for _, values in found for value in values]


def _place() -> str:
    """An entry's place in a search: FTS5 stops where a page is full if it is asked by its own name."""
    return "w.rowid" if connection.vendor == "sqlite" else "e.id"


def _stored(moment: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(moment)
