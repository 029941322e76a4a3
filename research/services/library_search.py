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


@dataclass(frozen=True, slots=True)
class _Circle:
    """Entries that the person may see for one reason."""

    mark: str
    """The word that they all have."""
    whose: str
    values: list[Any]
    """What `whose` asks for."""


def find_entries(
    who: Principal, team: Team | None, wanted: Wanted, limit: int, after: Place | None
) -> list[LibraryEntry]:
    """The person's own and what they were given, newest first, no more than the first of them."""
    circles = _circles(who, team, wanted)
    conditions, values = _conditions(who, wanted, after)
    if wanted.query is not None:
        return _by_words(wanted, wanted.query, circles, conditions, values, limit) if wanted.query else []
    # Each in its index's order, and of these the first.
    part = (
        "SELECT * FROM (SELECT {columns} FROM research_libraryentry e WHERE {whose}{conditions}"
        " ORDER BY e.at DESC, e.id DESC LIMIT {limit}) AS part"
    )
    statement = " UNION ALL ".join(
        part.format(columns=ENTRY, whose=circle.whose, conditions=conditions, limit=limit)
        for circle in circles
    )
    parameters = [value for circle in circles for value in (*circle.values, *values)]
    return list(LibraryEntry.objects.raw(f"{statement} ORDER BY at DESC, id DESC LIMIT {limit}", parameters))


def _by_words(
    wanted: Wanted, query: Query, circles: list[_Circle], conditions: str, values: list[Any], limit: int
) -> list[LibraryEntry]:
    """All at once: what begins with the last word is gathered for each time that it is asked for."""
    whose = " OR ".join(f"({circle.whose})" for circle in circles)
    statement = (
        f"SELECT {ENTRY} FROM {HITS[connection.vendor]} WHERE ({whose}){conditions}"
        f" ORDER BY {_place()} DESC LIMIT {limit}"
    )
    match = _match(wanted, query, [circle.mark for circle in circles])
    asked = [value for circle in circles for value in circle.values]
    return list(LibraryEntry.objects.raw(statement, [match, *asked, *values]))


def _circles(who: Principal, team: Team | None, wanted: Wanted) -> list[_Circle]:
    found = [_Circle(mine(who.user_id), "e.user_id = %s", [who.user_id])] if wanted.kind != "shared" else []
    if team and wanted.kind != "chat":
        members = "SELECT user_id FROM portal_membership WHERE team_id = %s"
        given = f"e.shared_with_id = %s AND e.user_id IN ({members})"
        if wanted.kind == "shared":
            return [_Circle(ours(team.pk), given, [team.pk, team.pk])]
        found.append(_Circle(ours(team.pk), f"{given} AND e.user_id <> %s", [team.pk, team.pk, who.user_id]))
    # Nobody's: what is shared, for somebody in no team.
    return found or [_Circle(mine(0), "e.user_id IS NULL", [])]


def _match(wanted: Wanted, query: Query, circles: list[str]) -> str:
    """What the index of words is asked for. Words hold neither quotes nor any other sign."""
    words = [*query.words]
    if wanted.kind in Kind.values:
        words.append(kind_mark(wanted.kind))
    if wanted.label:
        words.append(label_mark(wanted.label))
    if wanted.status and wanted.status != "live":
        words.append(status_mark(wanted.status))
    either, both, quote, begins = {
        "sqlite": (" OR ", " AND ", '"{}"', '"{}" *'),
        "postgresql": (" | ", " & ", "'{}'", "'{}':*"),
    }[connection.vendor]
    parts = [f"({either.join(quote.format(circle) for circle in circles)})"]
    parts += [quote.format(word) for word in words]
    return both.join(parts + ([begins.format(query.prefix)] if query.prefix else []))


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
