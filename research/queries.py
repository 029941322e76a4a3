"""Reads that more than one door needs. What is not the caller's does not exist here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from statistics import median
from typing import Any
from uuid import UUID

from django.db.models import F, Func, IntegerField, Q, QuerySet

from portal.models.teams import Membership, Team
from portal.services.principal import Principal
from portal.wire.errors import NotFound, no_response
from research.models.presets import Preset
from research.models.reports import RunEvent
from research.models.runs import Run
from research.protocol.states import LIVE, PUBLIC, TERMINAL, State

HISTORY = 50
"""Completed runs that a preset's usual time is taken from."""
ENOUGH_HISTORY = 5
HEAVY = tuple(
    f"report__{name}"
    for name in (
        "text",
        "html",
        "thinking",
        "sources",
        "marks",
        "annotations",
        "checks",
        "queries",
        "receipt",
    )
)
"""What a list has no use for: hundreds of kilobytes a report."""


class _Length(Func):
    """How many entries a JSON list has, without reading it."""

    function = "JSON_ARRAY_LENGTH"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        return self.as_sql(compiler, connection, function="JSONB_ARRAY_LENGTH")


@dataclass(frozen=True, slots=True)
class Page:
    """Runs with their reports, of which nothing is read that a list has no use for; each has
    `source_count` besides."""

    runs: list[Run]
    has_more: bool


def visible_runs(who: Principal) -> QuerySet[Run]:
    """The caller's own, which only they may act on."""
    return Run.objects.filter(user_id=who.user_id, hidden_at=None)


def readable_runs(who: Principal) -> QuerySet[Run]:
    """The caller's own, and what others have given to the caller's team and are still in themselves."""
    return Run.objects.filter(Q(user_id=who.user_id) | _given_to(who), hidden_at=None)


def followed_runs(who: Principal) -> QuerySet[Run]:
    """The same for whoever follows a run already: their own they see to its end, even if they delete it."""
    return Run.objects.filter(Q(user_id=who.user_id) | _given_to(who) & Q(hidden_at=None))


def _given_to(who: Principal) -> Q:
    team = Membership.objects.filter(user_id=who.user_id).values("team")
    return Q(shared_with__in=team, user__membership__team=F("shared_with"))


def shared_runs(team: Team) -> QuerySet[Run]:
    """What its people have given to the team, as long as they are in it."""
    return Run.objects.filter(shared_with=team, hidden_at=None, user__membership__team=team)


def readers_of(run: Run) -> list[int]:
    """Ids of the users who may read a run now that is not their own."""
    given = Run.objects.filter(pk=run.pk, hidden_at=None, user__membership__team=F("shared_with"))
    people = Membership.objects.filter(team__in=given.values("shared_with"))
    return list(people.exclude(user_id=run.user_id).values_list("user_id", flat=True))


def find_run(who: Principal, run_id: UUID | None) -> Run:
    """The caller's own run with its report; every other id is answered like an unknown one."""
    return _found(visible_runs(who), run_id)


def find_readable_run(who: Principal, run_id: UUID | None) -> Run:
    """The same for one that the caller may read."""
    try:
        return find_run(who, run_id)  # what nearly all polls are for, in two thirds of the time
    except NotFound:
        return _found(readable_runs(who), run_id)


def _found(rows: QuerySet[Run], run_id: UUID | None) -> Run:
    run = rows.select_related("report").filter(pk=run_id).first() if run_id else None
    if run is None:
        raise no_response()
    return run


def list_runs(
    who: Principal, limit: int, after: UUID | None = None, statuses: Collection[str] | None = None
) -> Page:
    """The caller's own, newest first; `after` is the last run of the page before. `statuses` are public
    ones; None lists all."""
    own = visible_runs(who)
    rows = own if statuses is None else standing(own, statuses)
    return _page(_behind(rows, own, "created_at", after), "created_at", limit)


def list_shared_runs(team: Team, limit: int, after: UUID | None = None) -> Page:
    """What the team was given, with whose it is; newest given first."""
    given = shared_runs(team)
    return _page(_behind(given, given, "shared_at", after).select_related("user"), "shared_at", limit)


def _behind(rows: QuerySet[Run], places: QuerySet[Run], by: str, after: UUID | None) -> QuerySet[Run]:
    """Those of `rows` that come behind `after`, which is one of `places`. Raises NotFound."""
    if after is None:
        return rows
    moment = places.filter(pk=after).values_list(by, flat=True).first()
    if moment is None:
        raise NotFound("No response with this id exists.", param="after", code="not_found")
    # The first condition says nothing new, but it is the one that an index can begin at.
    return rows.filter(**{f"{by}__lte": moment}).exclude(**{by: moment, "pk__gte": after})


def _page(rows: QuerySet[Run], by: str, limit: int) -> Page:
    rows = rows.select_related("report").defer(*HEAVY).annotate(source_count=_Length("report__sources"))
    found: list[Run] = list(rows.order_by(f"-{by}", "-id")[: limit + 1])
    return Page(found[:limit], len(found) > limit)


def standing(rows: QuerySet[Run], statuses: Collection[str]) -> QuerySet[Run]:
    """Of `rows` those that stand so, as the APIs name it."""
    states = sorted(state for state in State if PUBLIC[state] in statuses)
    # Those in flight and those that ended have an index each, which begins at this condition.
    ended = {state in TERMINAL for state in states}
    if len(ended) == 1:
        rows = rows.filter(completed_at__isnull=not ended.pop())
    return rows.filter(state=states[0]) if len(states) == 1 else rows.filter(state__in=states)


def events_after(run: Run, seq: int = 0) -> list[RunEvent]:
    return list(RunEvent.objects.filter(run=run, seq__gt=seq).order_by("seq"))


def live_runs(*, user_id: int | None = None, key_id: int | None = None) -> int:
    """Runs in flight, of a user or through a key."""
    rows = Run.objects.filter(completed_at=None, state__in=sorted(LIVE))
    return (rows.filter(user_id=user_id) if user_id is not None else rows.filter(key_id=key_id)).count()


def any_run_is_live() -> bool:
    """Whether anybody's run is under way."""
    return Run.objects.filter(next_run_at__isnull=False).order_by().exists()


def enabled_presets() -> list[Preset]:
    return list(Preset.objects.filter(enabled=True))


def preset_titles() -> dict[str, str]:
    """Name → title of every preset, the disabled ones too: old runs still name them."""
    return dict(Preset.objects.values_list("name", "title"))


def usual_seconds(preset: Preset) -> int:
    """How long this preset usually takes: from our own history once there is some."""
    rows = Run.objects.filter(preset=preset.name, state=State.COMPLETED).order_by("-completed_at")
    times = rows.values_list("submitted_at", "completed_at")[:HISTORY]
    return _usual([(end - start).total_seconds() for start, end in times if start and end], preset)


def usual_times(presets: list[Preset]) -> dict[str, int]:
    """The same for several presets in one query, out of the latest runs of all of them."""
    rows = Run.objects.filter(state=State.COMPLETED, hidden_at=None).order_by("-completed_at")
    lengths: dict[str, list[float]] = {preset.name: [] for preset in presets}
    for name, start, end in rows.values_list("preset", "submitted_at", "completed_at")[: HISTORY * 4]:
        if name in lengths and start and end:
            lengths[name].append((end - start).total_seconds())
    return {preset.name: _usual(lengths[preset.name][:HISTORY], preset) for preset in presets}


def _usual(lengths: list[float], preset: Preset) -> int:
    return round(median(lengths)) if len(lengths) >= ENOUGH_HISTORY else preset.usual_seconds
