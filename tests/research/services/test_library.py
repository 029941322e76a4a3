"""What the library finds, and for whom. Everything here holds on both databases."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from portal.models.teams import Membership
from portal.models.users import User
from portal.services import teams
from portal.services.errors import Invalid
from portal.services.principal import principal_of
from portal.wire.errors import NotFound
from proxy.models.chats import ChatTurn, Conversation
from research.models.library import LibraryEntry, LibraryTag
from research.models.reports import Report, RunEvent
from research.models.runs import Run
from research.protocol.searching import query_of, words_of
from research.protocol.states import State
from research.services import library, library_index, library_triggers
from research.services.delete import delete_run
from research.services.library import look, tag, untag
from research.services.library_search import Wanted, place_of
from research.services.sharing import share_run, take_back_run
from research.services.sweep import tidy
from tests.portal.people import a_team, somebody
from tests.research.pages.cast import a_run, ended, finished

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return somebody(credits=200)


def a_chat(
    user: User, question: str = "Why is the sky blue?", answer: str = "Air scatters light."
) -> Conversation:
    """One question with its answer, as the rounds write them."""
    chat = Conversation.objects.create(user=user, title=question[:120])
    turn = goes_on(chat, question)
    ChatTurn.objects.filter(pk=turn.pk).update(
        state="delivered", lease_until=None, ended_at=timezone.now(), answer=answer
    )
    return chat


def goes_on(chat: Conversation, question: str) -> ChatTurn:
    Conversation.objects.filter(pk=chat.pk).update(updated_at=timezone.now())
    later = timezone.now() + timedelta(minutes=1)
    return ChatTurn.objects.create(
        user=chat.user,
        conversation=chat,
        door="page",
        model="gpt",
        price=0,
        question=question,
        lease_until=later,
    )


def indexed() -> None:
    while library_index.due().exists():
        library_index.index_next()


def found(user: User, text: str | None = None, **wanted: object) -> list[UUID]:
    """Ids of what is found, in order."""
    query = None if text is None else query_of(text)
    page = look(principal_of(user), Wanted(query, **wanted), 50)  # type: ignore[arg-type]
    return [item.entry.item for item in page.items]


def teammates(user: User) -> User:
    team = a_team()
    other = somebody()
    for one in (user, other):
        Membership.objects.filter(user=one).delete()
        Membership.objects.create(user=one, team=team)
    return other


def test_it_lists_runs_and_chats_newest_first(user: User) -> None:
    first, chat, last = finished(user), a_chat(user), a_run(user)

    assert found(user) == [last.pk, chat.pk, first.pk]

    goes_on(chat, "And at dusk?")
    assert found(user) == [chat.pk, last.pk, first.pk]


def test_it_pages_without_a_gap_and_without_a_double(user: User) -> None:
    runs = [a_run(user, f"Question {place}?") for place in range(7)]
    Run.objects.filter(user=user).update(question="Tides?")
    indexed()
    who = principal_of(user)

    for query in (None, query_of("question")):
        seen, after = [], None
        for _ in range(4):
            page = look(who, Wanted(query), 2, after)
            seen += [item.entry.item for item in page.items]
            after = place_of(str(page.next)) if page.next else None
            assert (after is None) == (len(seen) in (0, 7))
        assert seen == ([run.pk for run in reversed(runs)] if query is None else seen[:7])


@pytest.mark.parametrize(
    "text", ["moon", "MOON pulls", "tides", "springs twi", '"moon" -(*:', "why there tid"]
)
def test_it_finds_a_run_by_its_question_and_by_its_report(user: User, text: str) -> None:
    run, other = finished(user), a_run(user, "Something else?")
    indexed()

    assert found(user, text) == [run.pk]
    assert other.pk not in found(user, text)


@pytest.mark.parametrize("text", ["sky", "scatters", "light air", "sca"])
def test_it_finds_a_chat_by_what_was_said(user: User, text: str) -> None:
    chat = a_chat(user)
    indexed()

    assert found(user, text) == [chat.pk]


def test_it_finds_what_was_said_later_and_by_a_new_name(user: User) -> None:
    chat = a_chat(user)
    indexed()
    goes_on(chat, "And at dusk?")
    assert found(user, "scatters") == [chat.pk], "what was known stays found meanwhile"
    Conversation.objects.filter(pk=chat.pk).update(title="Farben")
    indexed()

    assert found(user, "dusk") == found(user, "farben") == [chat.pk]


@pytest.mark.parametrize("text", ["", "!!", "lakes", "moon lakes"])
def test_it_finds_nothing_where_nothing_is(user: User, text: str) -> None:
    finished(user)
    indexed()

    assert found(user, text) == []


def test_it_finds_by_every_filter(user: User) -> None:
    run, failed, live, chat = (
        finished(user),
        ended(user, State.FAILED),
        a_run(user, preset="2m"),
        a_chat(user),
    )
    LibraryEntry.objects.filter(item=failed.pk).update(at=timezone.now() - timedelta(days=9))
    tag(principal_of(user), run.pk, "sea")
    indexed()
    a_week_ago = timezone.now() - timedelta(days=7)

    assert found(user, kind="chat") == [chat.pk]
    assert found(user, kind="run", status="completed") == [run.pk]
    assert found(user, status="failed") == [failed.pk]
    assert found(user, status="live") == [live.pk]
    assert found(user, label="gpt") == [chat.pk]
    assert found(user, label="2m") == [live.pk]
    assert found(user, tag="sea") == [run.pk]
    assert found(user, until=a_week_ago) == [failed.pk]
    assert failed.pk not in found(user, since=a_week_ago)


def test_it_finds_by_words_and_every_filter(user: User) -> None:
    run, failed = finished(user), ended(user, State.FAILED)
    chat, live = a_chat(user, "Are there tides in lakes?"), a_run(user, preset="2m")
    tag(principal_of(user), chat.pk, "sea")
    indexed()

    assert found(user, "tides") == [live.pk, chat.pk, failed.pk, run.pk]
    assert found(user, "tides", kind="chat") == found(user, "tides", label="gpt") == [chat.pk]
    assert found(user, "tides", status="failed") == [failed.pk]
    assert found(user, "tides", status="live") == found(user, "tides", label="2m") == [live.pk]
    assert found(user, "tides", tag="sea") == [chat.pk]
    assert found(user, "tides", since=timezone.now()) == []


def test_it_finds_nothing_of_anybody_else(user: User) -> None:
    finished(user)
    a_chat(user)
    indexed()
    stranger, mate = somebody(), teammates(user)

    for other in (stranger, mate):
        assert found(other) == found(other, "moon") == found(other, "sky") == []
        assert found(other, kind="shared") == found(other, "moon", kind="shared") == []


def test_it_finds_what_was_given_as_long_as_it_is(user: User) -> None:
    mate, run = teammates(user), finished(user)
    share_run(principal_of(user), run.pk)
    indexed()

    for kind in ("", "run", "shared"):
        assert found(mate, kind=kind) == found(mate, "moon", kind=kind) == [run.pk]
    assert found(mate, kind="chat") == found(mate, "moon", kind="chat") == []
    assert found(user, "moon") == found(user, "moon", kind="shared") == [run.pk], "once, though twice theirs"

    take_back_run(principal_of(user), run.pk)
    assert found(mate) == found(mate, "moon") == found(mate, kind="shared") == []


def test_it_finds_nothing_of_who_has_left_nor_for_them(user: User) -> None:
    mate, run = teammates(user), finished(user)
    share_run(principal_of(user), run.pk)
    indexed()

    teams.leave_team(principal_of(mate), Membership.objects.get(user=mate).team)
    assert found(mate) == found(mate, "moon") == []


def test_it_finds_nothing_shared_for_somebody_in_no_team(user: User) -> None:
    Membership.objects.filter(user=user).delete()
    run = finished(user)
    indexed()

    assert found(user, kind="shared") == found(user, "moon", kind="shared") == []
    assert found(user) == found(user, "moon") == [run.pk]


def test_it_believes_the_run_and_not_its_entry(user: User) -> None:
    """As if a trigger had been missing."""
    run, stranger = finished(user), somebody()
    indexed()
    LibraryEntry.objects.filter(item=run.pk).update(user=stranger)

    assert found(stranger) == []


def test_it_forgets_a_deleted_run_and_chat_at_once_with_every_word(user: User) -> None:
    run, chat = finished(user), a_chat(user)
    for item in (run.pk, chat.pk):
        tag(principal_of(user), item, "sea")
    indexed()

    delete_run(principal_of(user), run.pk)
    Conversation.objects.filter(pk=chat.pk).update(hidden_at=timezone.now())

    assert found(user) == found(user, "moon") == found(user, "sky") == []
    assert not LibraryEntry.objects.filter(user=user).exists()
    assert not LibraryTag.objects.exists()
    assert words_left("sky") == 0


def words_left(word: str) -> int:
    count = {
        "sqlite": "SELECT count(*) FROM research_librarywords WHERE words LIKE %s",
        "postgresql": "SELECT count(*) FROM research_libraryentry WHERE words::text LIKE %s",
    }
    with connection.cursor() as cursor:
        cursor.execute(count[connection.vendor], [f"%{word}%"])
        return int(cursor.fetchone()[0])


def test_it_forgets_what_retention_takes(user: User, settings: object) -> None:
    run = finished(user)
    Run.objects.filter(pk=run.pk).update(completed_at=timezone.now() - timedelta(days=30))
    indexed()
    settings.RETENTION_DAYS = 7  # type: ignore[attr-defined]

    assert tidy() == 1
    assert found(user) == found(user, "moon") == []


def test_it_marks_the_hit(user: User) -> None:
    finished(user)
    indexed()

    [item] = look(principal_of(user), Wanted(query_of("pulls")), 5).items

    assert [part.text for part in item.excerpt if part.is_hit] == ["pulls"]


def test_it_tags_once_whatever_the_case(user: User) -> None:
    run, who = a_run(user), principal_of(user)

    assert {tag(who, run.pk, name) for name in ("Deep  Sea", "#deep sea ", "DEEP SEA")} == {"deep sea"}
    page = look(who, Wanted(), 5)
    assert page.names == page.items[0].tags == ["deep sea"]

    assert untag(who, run.pk, "Deep Sea")
    assert not untag(who, run.pk, "Deep Sea")
    assert look(who, Wanted(), 5).names == []


def test_it_shows_nobody_anybody_elses_tags(user: User) -> None:
    mate, run = teammates(user), finished(user)
    share_run(principal_of(user), run.pk)
    tag(principal_of(user), run.pk, "mine")
    tag(principal_of(mate), run.pk, "theirs")

    page = look(principal_of(mate), Wanted(), 5)

    assert page.names == page.items[0].tags == ["theirs"]
    assert found(mate, tag="mine") == []


@pytest.mark.parametrize("name", ["", "  ", "#", "x" * 31])
def test_it_refuses_what_is_no_tag(user: User, name: str) -> None:
    run = a_run(user)

    with pytest.raises(Invalid):
        tag(principal_of(user), run.pk, name)


def test_it_bounds_the_tags(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "MOST_TAGS", 2)
    monkeypatch.setattr(library, "MOST_NAMES", 3)
    who, first, second = principal_of(user), a_run(user), a_run(user)
    for name in ("a", "b", "b"):
        tag(who, first.pk, name)

    with pytest.raises(Invalid, match="2 tags already"):
        tag(who, first.pk, "c")
    tag(who, second.pk, "c")
    with pytest.raises(Invalid, match="3 different tags"):
        tag(who, second.pk, "d")


def test_it_tags_nothing_that_one_may_not_see(user: User) -> None:
    stranger = principal_of(somebody())

    for item in (finished(user).pk, a_chat(user).pk, uuid4()):
        with pytest.raises(NotFound):
            tag(stranger, item, "sea")


def test_it_takes_in_what_was_there_before_the_library(user: User) -> None:
    run, chat, gone = finished(user), a_chat(user), finished(user)
    delete_run(principal_of(user), gone.pk)
    before = {entry.item: (entry.at, entry.label, entry.status) for entry in LibraryEntry.objects.all()}
    with connection.cursor() as cursor:
        on = " ON research_run" if connection.vendor == "postgresql" else ""
        cursor.execute(f"DROP TRIGGER library_run_given{on}")
    LibraryEntry.objects.all().delete()

    library_triggers.install()

    assert library_triggers.missing() == []
    after = {entry.item: (entry.at, entry.label, entry.status) for entry in LibraryEntry.objects.all()}
    assert after == before
    assert after.keys() == {run.pk, chat.pk}
    indexed()
    assert found(user, "moon") == [run.pk]


def test_it_takes_words_again_of_what_changed_while_they_were_taken(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(user)

    def while_it_ends(text: str) -> list[str]:
        LibraryEntry.objects.filter(item=run.pk).update(changed=2)
        return words_of(text)

    monkeypatch.setattr(library_index, "words_of", while_it_ends)
    library_index.index_next()

    assert library_index.due().count() == 1
    assert found(user, "tides") == []


def test_it_takes_the_words_of_a_batch_in_few_queries(
    user: User, django_assert_max_num_queries: object
) -> None:
    for _ in range(4):
        a_run(user)

    with django_assert_max_num_queries(5 + 3 * 4):  # type: ignore[operator]  # a fixture without types
        library_index.index_next()


def test_it_has_a_word_for_any_text_that_a_report_may_hold(user: User) -> None:
    run = finished(user)
    hostile = (
        "x" * 5000
        + " "
        + " ".join(f"w{n}é" for n in range(40_000))
        + " ' \\ & | ! :* <-> \ud7ff \U0001f600 研究"
    )
    Report.objects.filter(run=run).update(text=hostile)
    LibraryEntry.objects.update(changed=99)
    indexed()

    assert found(user, "w123é") == found(user, "x" * 60) == [run.pk]
    RunEvent.objects.filter(run=run).delete()
