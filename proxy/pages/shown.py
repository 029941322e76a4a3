"""Chat turns and models as the pages show them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

from portal.services.render import render_markdown
from portal.wire.urls import host_label, linkable
from proxy.models.catalog import ChatModel
from proxy.models.chats import ChatTurn
from proxy.protocol.model_table import FREE_MODEL, Model, label_of, may_use
from proxy.services.catalog import model_of, pool_tier

State = ChatTurn.State
TIERS = {"free": "Every account", "pro": "Pro accounts", "max": "Max accounts"}
MOST_HOSTS = 3
_FOUND = re.compile(r"Found: \[(.*)\]\((\S+)\)")
_READING = re.compile(r"Reading: (\S+)")
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)T.*")
_STRAY = re.compile(r" [.,;:!?](?:\s|\Z)")
"""A blank before a stop: a citation mark stood between them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model that may be picked."""

    id: str
    label: str
    thinks: bool
    price: Decimal
    chosen: bool


@dataclass(frozen=True, slots=True)
class Group:
    """The models of one tier."""

    title: str
    choices: list[Choice]


@dataclass(frozen=True, slots=True)
class SourceRow:
    number: int
    url: str
    title: str
    host: str
    snippet: str
    date: str


@dataclass(frozen=True, slots=True)
class Step:
    """A line of what was done on the way: a word, and what it is about, with its page if it has one."""

    word: str
    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Cite:
    """Chips behind a stretch of text."""

    start: int
    end: int
    sources: tuple[int, ...]
    problem: None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong, and what helps. `again`: asking the same once more may."""

    title: str
    text: str
    again: bool = True


@dataclass(frozen=True, slots=True)
class Shown:
    """One question and its answer, as far as it is."""

    turn: ChatTurn
    html: str
    lines: list[Step]
    sources: list[SourceRow]
    model: str
    instead: str
    """The model that answered in its place; "" when it was the one that was asked."""
    cost: Decimal
    trouble: Trouble | None

    @property
    def id(self) -> str:
        return self.turn.pk.hex

    @property
    def again_id(self) -> UUID:
        """Of the form that asks the same once more: however often it is sent, it asks once."""
        return uuid5(self.turn.pk, "again")

    @property
    def live(self) -> bool:
        return bool(self.turn.state == State.OPEN)

    @property
    def mark(self) -> str:
        """Another one whenever something of it has changed."""
        asked = "-stopping" if self.live and self.turn.stop_asked_at else ""
        return f"{self.id}-{self.turn.seq}-{self.turn.state}{asked}"

    @property
    def hosts(self) -> str:
        hosts = list(dict.fromkeys(source.host for source in self.sources if source.host))
        return ", ".join(hosts[:MOST_HOSTS]) + (", …" if len(hosts) > MOST_HOSTS else "")

    @property
    def awaited(self) -> str:
        """What has to happen next, in one line."""
        if not self.live:
            return ""
        if self.turn.stop_asked_at:
            return "Stopping."
        if self.turn.answer:
            return "Writing."
        if self.lines:
            return f"{self.lines[-1].word} {self.lines[-1].text}".strip()
        return f"Waiting for {self.model}." if self.turn.claimed_at else "Waiting for a free worker."


def groups_of(wanted: str) -> list[Group]:
    """What the pool can be asked, by tier: one entry for each model, whatever names it has."""
    tier = pool_tier()
    rows = [(row, model_of(row)) for row in ChatModel.objects.filter(enabled=True)]
    usable = [(row, model) for row, model in rows if may_use(model, tier)]
    named = {model.id for _, model in usable}
    chosen = next((name for name in (wanted, FREE_MODEL) if name in named), "")
    grouped: defaultdict[str, list[Choice]] = defaultdict(list)
    seen: set[str] = set()
    # The one that is chosen stands for its model, whichever of the names it is.
    for row, model in sorted(usable, key=lambda pair: pair[1].id != chosen):
        if model.preference not in seen:
            seen.add(model.preference)
            choice = Choice(
                model.id, model.label or model.id, bool(model.thinking), row.price, model.id == chosen
            )
            grouped[model.needs].append(choice)
    places = {row.pk: (row.position, row.pk) for row, _ in usable}
    return [
        Group(title, sorted(grouped[name], key=lambda one: places[one.id]))
        for name, title in TIERS.items()
        if grouped[name]
    ]


def shown_turns(turns: Iterable[ChatTurn], models: tuple[Model, ...]) -> list[Shown]:
    return [shown_turn(turn, models) for turn in turns]


def shown_turn(turn: ChatTurn, models: tuple[Model, ...]) -> Shown:
    sources = [_source(number, source) for number, source in enumerate(turn.sources, 1)]
    known = next((model for model in models if model.id == turn.model), None)
    own = {known.preference, known.preference_for(thinking=True)} if known else set()
    is_other = bool(turn.answered_by and known and turn.answered_by not in own)
    charged = turn.state != State.OPEN and turn.first_token_at is not None
    return Shown(
        turn=turn,
        html=html_of(turn, sources),
        lines=[step_of(line) for line in turn.reasoning.splitlines()],
        sources=sources,
        model=(known.label or known.id) if known else turn.model,
        instead=label_of(models, turn.answered_by) if is_other else "",
        cost=turn.price if charged else Decimal(0),
        trouble=trouble_of(turn),
    )


def step_of(line: str) -> Step:
    """From the line as clients get it (Reasoning.line)."""
    if found := _FOUND.fullmatch(line):
        return Step("Found:", found[1] or found[2], linkable(found[2]) or "")
    if read := _READING.fullmatch(line):
        return Step("Reading:", host_label(read[1]) or read[1], linkable(read[1]) or "")
    return Step("", line)


def html_of(turn: ChatTurn, sources: list[SourceRow]) -> str:
    numbers = tuple(source.number for source in sources)
    cites = cites_of(turn.answer, turn.citations, turn.sources)
    return _rendered(turn.answer, cites, numbers, f"{turn.pk.hex}-")


@dataclass(frozen=True, slots=True)
class _Number:
    number: int


@lru_cache(maxsize=128)
def _rendered(text: str, cites: tuple[Cite, ...], numbers: tuple[int, ...], place: str) -> str:
    """Answers do not change once they are there, and are looked at again and again."""
    return render_markdown(text, cites, [_Number(number) for number in numbers], place)


def cites_of(
    text: str, citations: Iterable[Mapping[str, Any]], sources: Iterable[Mapping[str, Any]]
) -> tuple[Cite, ...]:
    """One mark for each place where stretches end, and in place of the blank that their marks left there."""
    numbers: dict[str, int] = {}
    for number, source in enumerate(sources, 1):
        numbers.setdefault(source["url"], number)
    ends: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for citation in citations:
        if known := numbers.get(citation["source"]["url"]):
            ends[citation["end"]][known] = None
    return tuple(
        Cite(end, end + bool(_STRAY.match(text, end)), tuple(found)) for end, found in sorted(ends.items())
    )


def trouble_of(turn: ChatTurn) -> Trouble | None:
    if turn.state == State.CANCELLED and turn.stop_asked_at is None:
        return Trouble(
            "The answer was cut short", "The portal stopped, or failed, while it was being written."
        )
    if turn.state != State.FAILED:
        return None
    if turn.error_code == "insufficient_quota":
        text = (
            "The Perplexity accounts have no use of this model left. Choose another one below, or ask later."
        )
        return Trouble("The quota is used up", text, again=False)
    if turn.error_code == "context_length_exceeded":
        return Trouble("The chat has become too long", f"{turn.error_message} Start a new one.", again=False)
    title = "The answer broke off" if turn.answer else "No answer came"
    return Trouble(title, turn.error_message or "The upstream gave no reason.")


def _source(number: int, source: Mapping[str, Any]) -> SourceRow:
    url, host = linkable(source.get("url", "")) or "", host_label(source.get("url", ""))
    title = source.get("title") or url.partition("://")[2] or host or f"Source {number}"
    return SourceRow(
        number, url, title, host, source.get("snippet", ""), _DAY.sub(r"\1", source.get("date", ""))
    )
