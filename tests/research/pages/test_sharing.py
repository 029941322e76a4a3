"""A shared run's page, and the list of a team's."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.models.teams import Membership, Team
from portal.models.users import User
from portal.services.principal import principal_of
from portal.services.teams import leave_team
from research.models.runs import Run
from research.pages.runs import PAGE
from research.protocol.options import RunRequest
from research.protocol.states import State
from research.services.sharing import share_run, take_back_run
from research.services.start import start_run
from tests.portal.people import a_team, somebody
from tests.research.pages.cast import a_run, ended, finished, log, logged_in, running, stored

pytestmark = pytest.mark.django_db
UNKNOWN = "resp_" + "0" * 32
OF_A_RUN = ("/runs/{}", "/runs/{}/live", "/runs/{}/stop", "/runs/{}/share", "/runs/{}/take-back")


@pytest.fixture
def team() -> Team:
    a_team()  # the oldest one, to which everybody comes for whom none is named
    return a_team()


@pytest.fixture
def ada(team: Team) -> User:
    user = somebody(credits=200, team=team)
    User.objects.filter(pk=user.pk).update(name="Ada <Lovelace>")
    return user


@pytest.fixture
def owner(ada: User) -> Client:
    return logged_in(ada)


@pytest.fixture
def ben(team: Team) -> User:
    return somebody(team=team)


@pytest.fixture
def reader(ben: User) -> Client:
    return logged_in(ben)


def shared(run: Run) -> Run:
    share_run(principal_of(run.user), run.pk)
    return stored(run)


def test_it_shares_and_takes_back(owner: Client, reader: Client, ada: User, team: Team) -> None:
    path = f"/runs/{finished(ada).public_id}"
    assert "Share with team" in owner.get(path).text

    said = owner.post(f"{path}/share", follow=True).text
    assert f"Everybody in {team.name} can read this now." in said
    assert "Take back" in said
    assert "Share with team" not in said
    assert reader.get(path).status_code == 200

    said = owner.post(f"{path}/take-back", follow=True).text
    assert "nobody but you can read this now" in said
    assert "Share with team" in said
    assert reader.get(path).status_code == 404


def test_it_offers_no_sharing_to_somebody_in_no_team(owner: Client, ada: User) -> None:
    run = finished(ada)
    Membership.objects.filter(user=ada).delete()

    assert "Share with team" not in owner.get(f"/runs/{run.public_id}").text
    said = owner.post(f"/runs/{run.public_id}/share", follow=True).text
    assert "You are in no team that you could share this with" in said


def test_it_shows_a_reader_whose_report_it_is_and_nothing_to_act_by(reader: Client, ada: User) -> None:
    page = reader.get(f"/runs/{shared(finished(ada)).public_id}").text

    assert "<bdi>Ada &lt;Lovelace&gt;</bdi> shared this with" in page
    assert "The moon pulls" in page
    assert "https://moon.example/tides" in page
    assert "Copy as Markdown" in page
    for deed in ("Follow up", "Ask again", "/stop", "Take back", "Share with team"):
        assert deed not in page
    assert page.count("<form") == 1  # logging out


def test_it_is_found_under_runs_by_its_owner_and_under_team_by_a_reader(
    owner: Client, reader: Client, ada: User
) -> None:
    path = f"/runs/{shared(finished(ada)).public_id}"

    assert 'href="/runs" aria-current="page"' in owner.get(path).text
    page = reader.get(path).text
    assert 'href="/team" aria-current="page"' in page
    assert page.count("aria-current") == 1


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_it_tells_a_reader_of_an_end_without_speaking_to_its_owner(
    reader: Client, ada: User, state: State
) -> None:
    page = reader.get(f"/runs/{shared(ended(ada, state)).public_id}").text

    assert "It cost nothing." in page
    assert "Ask again" not in page


def test_it_lets_a_reader_watch_a_live_run_to_its_end(reader: Client, ada: User) -> None:
    run = shared(running(ada, queries=["moon"], pages=[], query_count=1, page_count=0))
    path = f"/runs/{run.public_id}"

    page = reader.get(path).text
    assert 'data-live="yes"' in page
    assert 'data-dialog="stop-dialog"' not in page
    changes = reader.get(f"{path}/live").json()
    assert "moon" in changes["events"]
    assert "stop-dialog" not in changes["gauge"]

    Run.objects.filter(pk=run.pk).update(cancel_requested_at=run.created_at)
    assert "Stopping…" not in reader.get(f"{path}/live").json()["gauge"]


def test_it_says_nothing_of_an_earlier_run_that_was_not_shared(
    owner: Client, reader: Client, ada: User
) -> None:
    first = finished(ada)
    asked = RunRequest("And neap tides?", previous_id=first.pk)
    second = shared(start_run(principal_of(ada), asked, "browser").run)
    path = f"/runs/{second.public_id}"

    assert "Follows up" in owner.get(path).text
    assert "Follows up" not in reader.get(path).text
    assert first.public_id not in reader.get(path).text

    shared(first)
    assert first.public_id in reader.get(path).text


@pytest.mark.parametrize("path", OF_A_RUN)
@pytest.mark.parametrize("goes", ["taken back", "owner left", "reader left"])
def test_it_answers_for_what_is_shared_no_more_as_for_an_unknown_id(
    reader: Client, ada: User, ben: User, team: Team, path: str, goes: str
) -> None:
    run = shared(running(ada))
    assert reader.get(f"/runs/{run.public_id}/live").status_code == 200
    if goes == "taken back":
        take_back_run(principal_of(ada), run.pk)
    else:
        leave_team(principal_of(ada if goes == "owner left" else ben), team)

    for method in (reader.get, reader.post):
        once, unknown = (method(path.format(name)) for name in (run.public_id, UNKNOWN))
        assert once.status_code == unknown.status_code
        assert once.status_code in (404, 405)
        assert once.content == unknown.content


@pytest.mark.parametrize("deed", ["stop", "share", "take-back"])
def test_it_answers_a_reader_who_acts_as_for_an_unknown_id(reader: Client, ada: User, deed: str) -> None:
    run = shared(running(ada))

    acted, unknown = (reader.post(f"/runs/{name}/{deed}") for name in (run.public_id, UNKNOWN))

    assert acted.status_code == unknown.status_code == 404
    assert acted.content == unknown.content
    assert stored(run).cancel_requested_at is None
    assert stored(run).shared_with is not None


@pytest.mark.parametrize("query", ["previous", "again"])
def test_it_fills_no_form_in_from_somebody_else_s_run(reader: Client, ada: User, query: str) -> None:
    run = shared(finished(ada))

    assert run.question not in reader.get(f"/?{query}={run.public_id}").text


def test_it_lists_what_the_team_was_given_to_everybody_in_it(
    owner: Client, reader: Client, ada: User, ben: User
) -> None:
    shared(finished(ada))
    shared(a_run(ben, "What is a seiche?"))
    kept = a_run(ada, "Is this mine alone?")

    for client, who in ((owner, "Ada &lt;Lovelace&gt;"), (reader, ben.email)):
        page = client.get("/team/reports")
        assert [run.title for run in page.context["page"].runs] == [
            "What is a seiche?",
            "Why are there tides?",
        ]
        others = [
            name for name in ("Ada &lt;Lovelace&gt;", ben.email) if f"by <bdi>{name}</bdi>" in page.text
        ]
        assert others == [name for name in ("Ada &lt;Lovelace&gt;", ben.email) if name != who]
        assert "by you" in page.text
        assert "Queued" in page.text
        assert "Completed" in page.text
        assert kept.public_id not in page.text
    assert "No runs yet" not in reader.get("/runs").text
    assert "Why are there tides?" not in reader.get("/runs").text


def test_it_lists_nothing_of_another_team(ada: User) -> None:
    run = shared(finished(ada))

    page = logged_in(somebody(team=a_team())).get("/team/reports").text

    assert run.public_id not in page
    assert "Nothing is shared yet" in page
    assert "“Share with team”" in page


def test_it_sends_somebody_in_no_team_to_where_that_is_said(reader: Client, ben: User) -> None:
    Membership.objects.filter(user=ben).delete()

    assert "You are in no team" in reader.get("/team/reports", follow=True).text


def test_it_pages_in_few_queries(reader: Client, ada: User, django_assert_max_num_queries: object) -> None:
    runs = [shared(a_run(ada, f"Question {place}?", preset="2m")) for place in range(PAGE + 2)]
    shared(finished(ada)), shared(finished(ada))

    with django_assert_max_num_queries(12):  # type: ignore[operator]  # a fixture without types
        first = reader.get("/team/reports")
    second = reader.get("/team/reports", {"after": first.context["page"].runs[-1].public_id})

    assert len(first.context["page"].runs) == PAGE
    assert [run.pk for run in second.context["page"].runs] == [run.pk for run in runs[3::-1]]
    assert "Older" in first.text
    assert "Older" not in second.text
    assert {reader.get("/team/reports", {"after": after}).status_code for after in ("x", UNKNOWN)} == {404}


def test_it_shows_a_run_in_few_queries(
    reader: Client, ada: User, django_assert_max_num_queries: object
) -> None:
    run = shared(finished(ada))

    with django_assert_max_num_queries(12):  # type: ignore[operator]  # a fixture without types
        reader.get(f"/runs/{run.public_id}")


def test_it_takes_no_event_for_news_of_a_page_that_may_not_see_it(reader: Client, ada: User) -> None:
    run = shared(running(ada))
    take_back_run(principal_of(ada), run.pk)
    log(stored(run))

    assert reader.get(f"/runs/{run.public_id}/live").status_code == 404
