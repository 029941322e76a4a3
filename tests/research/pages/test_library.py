from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.models.users import User
from research.models.library import LibraryEntry, LibraryTag
from research.models.runs import Run
from research.pages.library import PAGE
from tests.portal.people import somebody
from tests.research.pages.cast import a_run, finished, logged_in
from tests.research.services.test_library import a_chat, indexed, teammates

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return somebody(credits=200)


@pytest.fixture
def client(user: User) -> Client:
    return logged_in(user)


def test_it_leads_to_runs_and_chats(client: Client, user: User) -> None:
    run, chat = finished(user), a_chat(user)

    page = client.get("/library").text

    assert f'href="/runs/{run.public_id}"' in page
    assert f'href="/chat/{chat.pk}"' in page


def test_it_finds_by_words_and_marks_them(client: Client, user: User) -> None:
    run, other = finished(user), a_run(user, "Something else?")
    indexed()

    page = client.get("/library", {"q": "PULLS"}).text

    assert run.public_id in page
    assert other.public_id not in page
    assert "<mark>pulls</mark>" in page


def test_it_shows_markup_of_texts_and_queries_as_text(client: Client, user: User) -> None:
    a_chat(user, "<script>alert(1)</script> sky?", "<img src=x onerror=alert(2)> sky")
    indexed()

    page = client.get("/library", {"q": 'sky "><script>alert(3)</script>'}).text
    found = client.get("/library", {"q": "sky alert"}).text

    assert "<script>alert" not in page + found
    assert "<img src=x" not in page + found
    assert "&lt;script&gt;" in found


TYPED = (
    '"', "'", "(", "*", "a OR", "NEAR(", "words:x", "-x", "^x", "\\", "a\0b", "%", "_", "😀", "x" * 5000,
)  # fmt: skip
SAID = (
    {"kind": "x"}, {"status": "'"}, {"since": "2026-13-01"}, {"until": "9999-12-31"}, {"since": "0001-01-01"},
    {"zone": "../etc/passwd", "since": "2026-01-01"}, {"zone": "Mars/Olympus", "until": "2026-01-01"},
    {"label": "\0"}, {"tag": "nobody's"},
)  # fmt: skip
NOWHERE = ("x", "1", "1.", ".1", "-1.1", "1.1.1", "9" * 30 + ".1", "1." + "9" * 30, "١.١")


@pytest.mark.parametrize("said", [{"q": typed} for typed in TYPED] + list(SAID))
def test_it_takes_whatever_is_said(client: Client, user: User, said: dict[str, str]) -> None:
    a_run(user)
    indexed()

    assert client.get("/library", said).status_code == 200


@pytest.mark.parametrize("after", NOWHERE)
def test_it_knows_no_place_that_it_has_not_named(client: Client, after: str) -> None:
    assert client.get("/library", {"after": after}).status_code == 404


def test_it_turns_pages_with_what_is_wanted(client: Client, user: User) -> None:
    for place in range(PAGE + 2):
        a_run(user, f"Question {place}?", preset="2m")
    indexed()

    first = client.get("/library", {"q": "question", "kind": "run"})
    older = client.get(first.context["older"])

    assert len(first.context["found"].items) == PAGE
    assert len(older.context["found"].items) == 2
    assert "Newest" in older.text
    assert "Older" not in older.text
    end = client.get("/library", {"after": "1.1"}).text
    assert "Nothing older" in end


def test_it_says_what_to_do_next_where_there_is_nothing(client: Client, user: User) -> None:
    assert "Ask the first" in client.get("/library").text
    assert "Show everything" in client.get("/library", {"q": "lakes"}).text
    assert "Search without filters" in client.get("/library", {"q": "lakes", "kind": "chat"}).text


def test_it_counts_days_where_the_reader_is(client: Client, user: User) -> None:
    run = a_run(user)
    LibraryEntry.objects.filter(item=run.pk).update(at="2026-03-01T23:30:00Z")

    def on(day: str, zone: str) -> bool:
        page = client.get("/library", {"since": day, "until": day, "zone": zone})
        return bool(page.context["found"].items)

    assert on("2026-03-02", "Europe/Berlin")
    assert not on("2026-03-01", "Europe/Berlin")
    assert on("2026-03-01", "")


def test_it_tags_and_goes_back_to_the_list(client: Client, user: User) -> None:
    run = a_run(user)

    back = client.post(f"/library/{run.pk}/tag", {"tag": "Deep sea", "list": "/library?kind=run&after=99.9"})

    assert back.headers["Location"] == f"/library?kind=run&after=99.9#item-{run.pk.hex}"
    page = client.get("/library", {"tag": "deep sea"})
    assert run.public_id in page.text
    assert 'href="/library?tag=deep%20sea"' in page.text

    client.post(f"/library/{run.pk}/tag", {"tag": "", "remove": "deep sea", "list": "/library"})
    assert not LibraryTag.objects.exists()


def test_it_goes_back_to_no_other_place(client: Client, user: User) -> None:
    run = a_run(user)

    back = client.post(
        f"/library/{run.pk}/tag", {"tag": "a", "list": "https://evil.example/x?q=sea&after=evil"}
    )

    assert back.headers["Location"] == f"/library?q=sea#item-{run.pk.hex}"


def test_it_says_why_a_tag_was_not_taken(client: Client, user: User) -> None:
    run = a_run(user)

    page = client.post(f"/library/{run.pk}/tag", {"tag": "x" * 31}, follow=True).text

    assert "A tag has at most 30 characters" in page


def test_it_tags_nothing_of_anybody_else(client: Client) -> None:
    theirs = finished(somebody())

    foreign = client.post(f"/library/{theirs.pk}/tag", {"tag": "a"})
    unknown = client.post("/library/00000000-0000-0000-0000-000000000000/tag", {"tag": "a"})

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert not LibraryTag.objects.exists()


@pytest.mark.parametrize("path", ["/library", "/library?q=x"])
def test_it_is_for_those_who_are_in(path: str) -> None:
    assert Client().get(path).headers["Location"].startswith("/account/login/")


def test_it_takes_at_most_twelve_queries_however_long_the_page(
    client: Client, user: User, django_assert_max_num_queries: object
) -> None:
    mate = teammates(user)
    for owner in (user, mate):
        for _ in range(4):
            finished(owner)
            a_chat(owner)
    Run.objects.update(shared_with=user.membership.team, shared_at=timezone.now() - timedelta(days=1))
    for run in Run.objects.all():
        LibraryTag.objects.create(user=user, item=run.pk, name="sea")
    indexed()

    for said in ({}, {"q": "why"}, {"q": "why", "tag": "sea", "kind": "shared", "since": "2020-01-01"}):
        with django_assert_max_num_queries(12):  # type: ignore[operator]  # a fixture without types
            assert len(client.get("/library", said).context["found"].items) >= 8
