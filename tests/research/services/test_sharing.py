"""A team's report space: who reads what, until when (SPEC 2.1, 2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from django.db import OperationalError, connection, transaction

from portal.models.audit import AuditEntry
from portal.models.teams import Membership, Team
from portal.models.users import User
from portal.services.errors import Invalid
from portal.services.principal import Principal, principal_of
from portal.services.teams import leave_team, remove_member
from portal.wire.errors import NotFound
from research.models.runs import Run
from research.queries import find_readable_run, find_run, list_runs, list_shared_runs, readers_of
from research.services.cancel import cancel_run
from research.services.delete import delete_run
from research.services.sharing import share_run, take_back_run
from tests.portal.people import a_team, all_at_once, an_admin, leads, somebody
from tests.research.pages.cast import a_run, finished, running, stored

pytestmark = pytest.mark.django_db
Deed = Callable[["Story"], object]


@dataclass
class Story:
    """Ada gave Ben a run."""

    team: Team = field(default_factory=a_team)
    ada: User = field(init=False)
    ben: User = field(init=False)
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        self.ada, self.ben = somebody(team=self.team), somebody(team=self.team)
        self.run = running(self.ada)
        share_run(principal_of(self.ada), self.run.pk)
        self.run = stored(self.run)

    @property
    def owner(self) -> Principal:
        return principal_of(self.ada)

    @property
    def reader(self) -> Principal:
        return principal_of(self.ben)

    def move(self, user: User, team: Team) -> None:
        """As the administration does it."""
        member = Membership.objects.get(user=user)
        member.team = team
        member.save()


@pytest.fixture(autouse=True)
def _elsewhere(db: None) -> None:
    """The oldest team, to which everybody comes for whom none is named."""
    a_team()


@pytest.fixture
def story() -> Story:
    return Story()


def reads(who: Principal, run: Run) -> bool:
    try:
        return find_readable_run(who, run.pk) == run
    except NotFound:
        return False


def test_it_lets_everybody_in_the_team_read_and_nobody_else(story: Story) -> None:
    others = [an_admin(), leads(somebody(team=a_team())), principal_of(somebody())]

    assert reads(story.owner, story.run)
    assert reads(story.reader, story.run)
    assert not any(reads(other, story.run) for other in others)
    assert readers_of(story.run) == [story.ben.pk]


def test_it_shares_no_other_run_with_it(story: Story) -> None:
    kept = a_run(story.ada)

    assert not reads(story.reader, kept)
    assert readers_of(kept) == []


GOES: dict[str, Deed] = {
    "taken back": lambda story: take_back_run(story.owner, story.run.pk),
    "deleted": lambda story: delete_run(story.owner, story.run.pk),
    "the owner leaves": lambda story: leave_team(story.owner, story.team),
    "the reader leaves": lambda story: leave_team(story.reader, story.team),
    "the owner is removed": lambda story: remove_member(an_admin(), story.ada.membership),
    "the reader is removed": lambda story: remove_member(an_admin(), story.ben.membership),
    "the owner is moved": lambda story: story.move(story.ada, a_team()),
    "the reader is moved": lambda story: story.move(story.ben, a_team()),
    "the owner's place is written over": lambda story: Membership.objects.filter(user=story.ada).update(
        team=a_team()
    ),
}


@pytest.mark.parametrize("goes", GOES)
def test_it_ends_at_once_when_it_is(story: Story, goes: str) -> None:
    GOES[goes](story)

    assert not reads(story.reader, story.run)
    assert readers_of(story.run) == []
    assert not list_shared_runs(story.team, 10).runs or "reader" in goes


@pytest.mark.parametrize("goes", ["the owner leaves", "the owner is removed", "the owner is moved"])
def test_it_does_not_come_back_with_its_owner(story: Story, goes: str) -> None:
    GOES[goes](story)
    Membership.objects.filter(user=story.ada).delete()
    Membership.objects.create(user=story.ada, team=story.team)

    assert not reads(story.reader, story.run)
    assert stored(story.run).shared_with is None


def test_it_goes_to_no_other_team_with_its_owner(story: Story) -> None:
    other = a_team()
    stranger = principal_of(somebody(team=other))
    story.move(story.ada, other)

    assert not reads(stranger, story.run)
    assert list_shared_runs(other, 10).runs == []


def test_it_keeps_what_is_shared_when_only_the_role_changes(story: Story) -> None:
    member = Membership.objects.get(user=story.ada)
    member.role = Membership.Role.LEAD
    member.save()

    assert reads(story.reader, story.run)


@pytest.mark.parametrize("act", [find_run, cancel_run, delete_run, share_run, take_back_run])
def test_it_lets_a_reader_do_nothing_but_read(story: Story, act: Callable[..., object]) -> None:
    with pytest.raises(NotFound):
        act(story.reader, story.run.pk)

    assert reads(story.reader, story.run)
    assert list_runs(story.reader, 10).runs == []


def test_it_is_in_the_audit_once(story: Story) -> None:
    share_run(story.owner, story.run.pk)
    take_back_run(story.owner, story.run.pk)
    take_back_run(story.owner, story.run.pk)

    entries = AuditEntry.objects.filter(target=story.run.public_id, action__contains="run.").order_by("pk")
    assert [entry.action for entry in entries][-2:] == ["run.shared", "run.taken_back"]
    assert [entry.detail for entry in entries][-2:] == [{"team": story.team.name}, {}]
    assert {entry.actor_id for entry in entries} == {story.ada.pk}


def test_it_needs_a_team_to_share_with(story: Story) -> None:
    Membership.objects.filter(user=story.ada).delete()

    with pytest.raises(Invalid, match="no team"):
        share_run(story.owner, story.run.pk)


def test_it_lists_what_was_given_last_first_and_pages_through_all_of_it() -> None:
    team = a_team()
    ada, ben = (somebody(credits=100, team=team) for _ in range(2))
    runs = [a_run(user, f"Question {place}?") for place in range(3) for user in (ada, ben)]
    for run in reversed(runs):
        share_run(principal_of(run.user), run.pk)
    Run.objects.filter(pk__in=[run.pk for run in runs[:2]]).update(
        shared_at=Run.objects.get(pk=runs[0].pk).shared_at  # the id breaks the tie
    )

    seen: list[Run] = []
    while True:
        page = list_shared_runs(team, 2, seen[-1].pk if seen else None)
        seen += page.runs
        if not page.has_more:
            break

    assert {run.pk for run in seen[:2]} == {run.pk for run in runs[:2]}
    assert [run.pk for run in seen[2:]] == [run.pk for run in runs[2:]]
    with pytest.raises(NotFound):
        list_shared_runs(team, 2, a_run(ada).pk)


def test_it_counts_the_sources_of_what_it_lists() -> None:
    user = somebody()
    waiting, run = a_run(user), finished(user)

    counts = {row.pk: row.source_count for row in list_runs(principal_of(user), 10).runs}  # type: ignore[attr-defined]  # annotated

    assert counts == {waiting.pk: None, run.pk: 3}


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_it_takes_back_what_is_shared_while_its_owner_leaves() -> None:
    story = Story()
    new = a_run(story.ada)

    def leave_in_haste(_: int) -> bool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '300ms'")
            return leave_team(story.owner, story.team)

    with transaction.atomic():
        share_run(story.owner, new.pk)
        (outcome,) = all_at_once(1, leave_in_haste)

    assert isinstance(outcome, OperationalError), "whoever leaves waits for what is being shared"
    leave_team(story.owner, story.team)
    assert stored(new).shared_with is None
