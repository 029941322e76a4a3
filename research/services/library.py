"""The library: all runs and chats that a person may see, found again by their words, and tagged.

An entry says where something stands and by what it is found. Whether somebody may see it is never taken from
there alone: what is shown are the runs and chats themselves, asked for as every other door asks for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.db.models import UUIDField, Value
from django.db.models.functions import Cast, Substr

from portal.models.teams import Team
from portal.queries import team_of
from portal.services.errors import Invalid
from portal.services.principal import Principal
from portal.wire.errors import not_found
from proxy.models.catalog import ChatModel
from proxy.models.chats import ChatTurn, Conversation
from proxy.queries import visible_conversations
from research.models.library import Kind, LibraryEntry, LibraryTag
from research.models.presets import Preset
from research.models.runs import Run
from research.protocol.searching import Part, Query, excerpt_of, marked
from research.queries import HEAVY, readable_runs
from research.services.library_search import Place, Wanted, find_entries

LONGEST_TAG = 30
MOST_TAGS = 10
"""Tags that one run or chat may have."""
MOST_NAMES = 100
"""Different tags that a person may have."""
SEEN = 60_000
"""Characters of a text that are looked through for an excerpt."""
TURNS = 200
"""Turns of the chats of a page that are."""


@dataclass(slots=True)
class Item:
    """A run or a chat with what its line says. `run` or `chat` is there, never both."""

    entry: LibraryEntry
    run: Run | None = None
    chat: Conversation | None = None
    title: list[Part] = field(default_factory=list)
    excerpt: list[Part] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "".join(part.text for part in self.title)


@dataclass(frozen=True, slots=True)
class Found:
    """A page, newest first; `next` is None on the last. `names` are all of the person's tags."""

    items: list[Item]
    next: Place | None
    team: Team | None
    names: list[str]


def look(who: Principal, wanted: Wanted, limit: int, after: Place | None = None) -> Found:
    """A page of what the person may see and wants. A page may be shorter than `limit` with more behind."""
    team = team_of(who.user_id)
    entries = find_entries(who, team, wanted, limit + 1, after)
    shown = entries[:limit]
    items = _items(who, shown, wanted.query)
    names = _tag(who, items)
    more = Place(shown[-1].at, shown[-1].pk) if len(entries) > limit else None
    return Found(items, more, team, names)


def labels() -> tuple[dict[str, str], dict[str, str]]:
    """Titles of all presets by name, and of all models by id, in their orders."""
    presets = Preset.objects.order_by().values_list(Value("run"), "position", "name", "title")
    models = ChatModel.objects.order_by().values_list(Value("chat"), "position", "id", "label")
    found: dict[str, dict[str, str]] = {Kind.RUN.value: {}, Kind.CHAT.value: {}}
    for kind, _, name, title in sorted(presets.union(models, all=True)):
        found[kind][name] = title or name
    return found[Kind.RUN], found[Kind.CHAT]


@transaction.atomic
def tag(who: Principal, item: UUID, name: str) -> str:
    """Put a tag to what the person may see; twice is once. The tag as it is kept.

    Raises NotFound, and Invalid for no name, a long one, and too many.
    """
    _find(who, item)
    name = tag_name(name)
    if not name:
        raise Invalid("write the tag first", field="tag")
    if len(name) > LONGEST_TAG:
        raise Invalid(f"a tag has at most {LONGEST_TAG} characters", field="tag")
    own = LibraryTag.objects.filter(user_id=who.user_id)
    if own.filter(item=item).exclude(name=name).count() >= MOST_TAGS:
        raise Invalid(f"it has {MOST_TAGS} tags already: remove one first", field="tag")
    if not own.filter(name=name).exists() and own.values("name").distinct().count() >= MOST_NAMES:
        raise Invalid(f"you have {MOST_NAMES} different tags already: use one of them", field="tag")
    LibraryTag.objects.bulk_create(
        [LibraryTag(user_id=who.user_id, item=item, name=name)], ignore_conflicts=True
    )
    return name


def untag(who: Principal, item: UUID, name: str) -> bool:
    """Take a tag of the person's off again. False when it was not there. Raises NotFound."""
    _find(who, item)
    return bool(LibraryTag.objects.filter(user_id=who.user_id, item=item, name=tag_name(name)).delete()[0])


def tag_name(text: str) -> str:
    """One line in small letters, so that a tag is the same however it is typed."""
    return " ".join(text.replace("\0", "").split()).removeprefix("#").strip().lower()


def _find(who: Principal, item: UUID) -> None:
    """Raises NotFound for what the person may not see."""
    if not (
        readable_runs(who).filter(pk=item).exists() or visible_conversations(who).filter(pk=item).exists()
    ):
        raise not_found()


def _items(who: Principal, entries: list[LibraryEntry], query: Query | None) -> list[Item]:
    """The runs and chats themselves, as far as the person may see them now."""
    runs = _runs(who, [entry.item for entry in entries if entry.kind == Kind.RUN], query)
    chats = _chats(who, [entry.item for entry in entries if entry.kind == Kind.CHAT])
    said = _said([*chats], query)
    items = []
    for entry in entries:
        if run := runs.get(entry.item):
            texts = [
                getattr(run, "seen", None) or "",
                run.question if len(run.question) > len(run.title) else "",
            ]
            items.append(_item(Item(entry, run=run), run.title, texts, query))
        elif chat := chats.get(entry.item):
            items.append(_item(Item(entry, chat=chat), chat.title, said.get(chat.pk, []), query))
    return items


def _item(item: Item, title: str, texts: list[str], query: Query | None) -> Item:
    item.title = marked(title, query) if query else [Part(title, is_hit=False)]
    item.excerpt = excerpt_of(texts, query) if query else []
    return item


def _runs(who: Principal, ids: Collection[UUID], query: Query | None) -> dict[UUID, Run]:
    if not ids:
        return {}
    rows = readable_runs(who).filter(pk__in=ids).select_related("user").defer(*HEAVY).order_by()
    return {run.pk: run for run in (rows.annotate(seen=Substr("report__text", 1, SEEN)) if query else rows)}


def _chats(who: Principal, ids: Collection[UUID]) -> dict[UUID, Conversation]:
    rows = visible_conversations(who).filter(pk__in=ids).order_by() if ids else []
    return {chat.pk: chat for chat in rows}


def _said(chats: list[UUID], query: Query | None) -> dict[UUID, list[str]]:
    """What was asked and answered in these chats, the latest first."""
    said: defaultdict[UUID, list[str]] = defaultdict(list)
    if chats and query:
        rows = ChatTurn.objects.filter(conversation__in=chats).order_by("-created_at", "-id")
        texts = rows.annotate(asked=Substr("question", 1, SEEN), seen=Substr("answer", 1, SEEN))
        for chat, asked, answer in texts.values_list("conversation", "asked", "seen")[:TURNS]:
            said[chat] += [asked, answer]
    return said


def _tag(who: Principal, items: list[Item]) -> list[str]:
    """Put their tags to the items; the names of all tags that the person has."""
    own = LibraryTag.objects.filter(user_id=who.user_id).order_by()
    names = own.values_list("name", Cast(Value(None), UUIDField())).distinct()
    here = own.filter(item__in=[item.entry.item for item in items]).values_list("name", "item")
    of_item: defaultdict[UUID | None, list[str]] = defaultdict(list)
    for name, item in sorted(names.union(here, all=True), key=lambda pair: str(pair[0])):
        of_item[item].append(name)
    for item in items:
        item.tags = of_item[item.entry.item]
    return of_item[None]
