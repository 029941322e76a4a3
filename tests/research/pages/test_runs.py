from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client

from portal.models.users import User
from research.models.runs import Run
from research.pages.runs import PAGE
from research.protocol.outcome import Finished, Found
from research.protocol.states import State
from research.services.collect import collect
from research.services.moves import Event
from tests.portal.people import somebody
from tests.research.pages.cast import a_run, ended, finished, log, logged_in, older, running, stored

pytestmark = pytest.mark.django_db
UNKNOWN = "resp_" + "0" * 32


@pytest.fixture
def user() -> User:
    return somebody(credits=200)


@pytest.fixture
def client(user: User) -> Client:
    return logged_in(user)


def page_of(client: Client, run: Run) -> str:
    return client.get(f"/runs/{run.public_id}").text


def test_it_lists_the_newest_runs_first_page_by_page(client: Client, user: User) -> None:
    runs = [a_run(user, f"Question {place}?", preset="2m") for place in range(PAGE + 3)]

    first = client.get("/runs")
    last = first.context["page"].runs[-1]
    second = client.get("/runs", {"after": last.public_id})

    assert [run.pk for run in first.context["page"].runs] == [run.pk for run in runs[:2:-1]]
    assert [run.pk for run in second.context["page"].runs] == [run.pk for run in runs[2::-1]]
    assert "Older" in first.text
    assert "Older" not in second.text


def test_it_lists_nobody_elses_runs(client: Client) -> None:
    theirs = a_run(somebody())

    page = client.get("/runs").text

    assert theirs.public_id not in page
    assert "No runs yet" in page


def test_it_lists_a_page_in_few_queries(
    client: Client, user: User, django_assert_max_num_queries: object
) -> None:
    for _ in range(8):
        finished(user)

    with django_assert_max_num_queries(12):  # type: ignore[operator]  # a fixture without types
        client.get("/runs")


@pytest.mark.parametrize("path", ["/runs/{}", "/runs/{}/live", "/runs?after={}"])
def test_it_answers_for_foreign_unknown_and_malformed_ids_alike(client: Client, path: str) -> None:
    theirs = finished(somebody())

    foreign, unknown = (client.get(path.format(name)) for name in (theirs.public_id, UNKNOWN))
    malformed = client.get(path.format("resp_x"))

    assert foreign.status_code == unknown.status_code == malformed.status_code == 404
    assert foreign.content == unknown.content == malformed.content
    assert "There is nothing here" in foreign.text


def test_it_stops_no_foreign_run_and_says_nothing_of_it(client: Client) -> None:
    theirs = a_run(somebody())

    foreign, unknown = (client.post(f"/runs/{name}/stop") for name in (theirs.public_id, UNKNOWN))

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert stored(theirs).cancel_requested_at is None


@pytest.mark.parametrize("path", ["/", "/runs", f"/runs/{UNKNOWN}", f"/runs/{UNKNOWN}/live", "/keys"])
def test_it_lets_only_logged_in_people_in(path: str) -> None:
    answer = Client().get(path)

    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/account/login/?next={path}"


def test_it_shows_where_a_live_run_stands(client: Client, user: User) -> None:
    run = running(user, queries=["moon and tides"], pages=[], query_count=1, page_count=0)

    page = page_of(client, run)

    assert "Waiting for Perplexity’s Agent API to finish its research." in page
    assert "moon and tides" in page
    assert "Usually done after about 10 min." in page
    assert "2 credits set aside" in page
    assert 'data-live="yes"' in page


def test_it_says_in_the_tab_how_a_run_stands(client: Client, user: User) -> None:
    live, done = running(user), finished(user)

    assert "<title>Researching: Why are there tides? · Sonde</title>" in page_of(client, live)
    assert "<title>Why are there tides? · Sonde</title>" in page_of(client, done)
    assert client.get(f"/runs/{done.public_id}/live").json()["title"] == "Why are there tides? · Sonde"


def test_it_is_honest_about_a_run_that_takes_longer(client: Client, user: User) -> None:
    run = older(running(user), seconds=900)

    assert "Longer than usual. It may take 30 min at most." in page_of(client, run)


@pytest.mark.parametrize(
    ("changes", "awaited"),
    [
        ({"state": State.QUEUED}, "Waiting for a free worker."),
        ({"state": State.SUBMITTING}, "to take the question."),
        ({"faults": 2}, "to answer again."),
        ({"stop_reason": "budget", "state": State.CANCELLING}, "collecting what was written."),
        ({"state": State.CANCELLING}, "Stopping."),
    ],
)
def test_it_says_what_is_awaited(
    client: Client, user: User, changes: dict[str, object], awaited: str
) -> None:
    run = running(user)
    Run.objects.filter(pk=run.pk).update(**changes)

    assert awaited in page_of(client, run)


def test_it_tells_a_page_only_what_is_new(client: Client, user: User) -> None:
    run = running(user)
    known = client.get(f"/runs/{run.public_id}/live").json()["seq"]
    log(run, Event("progress", {"queries": ["neap tides"], "pages": []}))

    changes = client.get(f"/runs/{run.public_id}/live", {"after": known}).json()

    assert changes["live"] is True
    assert changes["seq"] == known + 1
    assert changes["events"].count('class="event') == 1
    assert "neap tides" in changes["events"]
    assert changes["said"]


@pytest.mark.parametrize("after", ["", "x", "-1", "²", "9" * 30])
def test_it_tells_everything_to_a_page_that_knows_nothing(client: Client, user: User, after: str) -> None:
    run = running(user)

    changes = client.get(f"/runs/{run.public_id}/live", {"after": after}).json()

    assert changes["events"].count('class="event') == 3


def test_it_gives_the_report_to_a_page_that_watched(client: Client, user: User) -> None:
    run = finished(user)

    changes = client.get(f"/runs/{run.public_id}/live", {"after": 3}).json()

    assert changes["live"] is False
    assert changes["status"] == "completed"
    assert "The moon pulls" in changes["body"]
    assert "Question accepted" in changes["body"]


def test_it_shows_the_report_with_contents_sources_and_receipt(client: Client, user: User) -> None:
    page = page_of(client, finished(user))

    assert '<sup class="cites"><a href="#source-1"' in page
    assert '<a href="#s-2">Springs</a>' in page
    assert 'id="source-1"' in page
    assert 'href="https://moon.example/tides"' in page
    assert '<span class="unsure">[9]</span>' in page
    assert "Citation marks that point at no known source: [9]." in page
    assert "1 source was found but not cited." in page
    for fact in ("a/model", "1,200", "345", "$0.0125", "2 credits"):
        assert fact in page
    assert "# Tides" in page  # what the copy button copies


def test_it_tells_pages_of_one_host_apart_when_nobody_named_them(client: Client, user: User) -> None:
    assert "www.sun.example/b/c" in page_of(client, finished(user))


def test_it_leaves_out_of_the_contents_what_only_repeats_the_title(client: Client, user: User) -> None:
    page = client.get(f"/runs/{finished(user).public_id}")

    assert [entry.text for entry in page.context["shown"].contents] == ["Springs"]


def test_it_says_plainly_that_there_were_no_sources(client: Client, user: User) -> None:
    page = page_of(client, finished(user, "Nothing but words.", found=()))

    assert "The upstream returned no sources" in page
    assert "None were given." in page


def test_it_keeps_thoughts_apart_and_folded(client: Client, user: User) -> None:
    page = page_of(client, finished(user, "<think>Hm, *tides*.</think>The moon [1]."))

    assert "Hm, *tides*." in page
    assert "Hm" not in page[page.index('id="report"') : page.index("</textarea>")]


def test_it_shows_what_there_is_of_an_incomplete_report(client: Client, user: User) -> None:
    run = running(user)
    collect(run, Finished("Half of it", complete=False, reason="time_budget"))

    page = page_of(client, run)

    assert "Incomplete" in page
    assert "Half of it" in page
    assert "This report is incomplete" in page


def test_it_says_why_a_run_failed_and_that_it_cost_nothing(client: Client, user: User) -> None:
    run = ended(user, State.FAILED, error_message="The upstream broke <down>.")

    page = page_of(client, run)

    assert "The upstream broke &lt;down&gt;." in page
    assert "It cost you nothing." in page
    assert f"?again={run.public_id}" in page


def test_it_says_that_there_were_too_few_credits(client: Client) -> None:
    poor = somebody(credits=1)

    page = page_of(logged_in(poor), a_run(poor))

    assert "There were not enough credits" in page
    assert "It cost you nothing." in page


def test_it_says_what_a_stopped_run_cost(client: Client, user: User) -> None:
    free = page_of(client, ended(user, State.CANCELLED))
    charged = page_of(client, ended(user, State.CANCELLED, charge=True))

    assert "It cost nothing: 2 credits went back to you." in free
    assert "stopped work is charged at this depth, 2 credits." in charged


def test_it_stops_a_run_that_waits(client: Client, user: User) -> None:
    run = a_run(user)

    answer = client.post(f"/runs/{run.public_id}/stop", follow=True)

    assert stored(run).state == State.CANCELLED
    assert "This run was stopped" in answer.text


def test_it_asks_for_the_stop_of_a_run_under_way(client: Client, user: User) -> None:
    run = running(user)

    page = client.post(f"/runs/{run.public_id}/stop", follow=True).text

    assert stored(run).cancel_requested_at is not None
    assert "Stopping" in page
    assert 'data-dialog="stop-dialog"' not in page


def test_it_warns_before_stopping_what_is_charged_all_the_same(client: Client, user: User) -> None:
    run = running(user)
    free = page_of(client, run)
    Run.objects.filter(pk=run.pk).update(charge_cancelled=True)

    assert "You get 2 credits back." in free
    assert "Work stopped in progress is charged: 2 credits." in page_of(client, run)


def test_it_is_no_error_to_stop_what_has_just_ended(client: Client, user: User) -> None:
    run = finished(user)

    page = client.post(f"/runs/{run.public_id}/stop", follow=True)

    assert page.status_code == 200
    assert "The run had already ended." in page.text


def test_it_shows_the_notes_of_a_run_and_what_was_not_honoured(client: Client, user: User) -> None:
    run = finished(user)
    Run.objects.filter(pk=run.pk).update(notes=["The run was sent once more."], ignored=["language"])

    page = page_of(client, run)

    assert "The run was sent once more." in page
    assert "Not honoured by what answered: language." in page


def test_it_labels_what_came_from_the_sandbox(client: Client, user: User) -> None:
    run = finished(user)
    Run.objects.filter(pk=run.pk).update(sandbox=False)
    assert "Sandbox: simulated" not in page_of(client, run)
    Run.objects.filter(pk=run.pk).update(sandbox=True)

    assert "Sandbox: simulated" in page_of(client, run)
    assert "Agent API (simulated)" in page_of(client, run)


def test_it_makes_no_heading_of_a_very_long_question(client: Client, user: User) -> None:
    question = "Why? " + "Because of the moon. " * 60
    run = running(user, question)

    page = page_of(client, run)

    assert f'<h1 dir="auto">{run.title}</h1>' in page
    assert "The whole question" in page


def test_it_shows_no_hostile_source_as_a_link(client: Client, user: User) -> None:
    found = (Found("javascript:alert(1)", "<script>alert(2)</script>", number=1),)

    page = page_of(client, finished(user, "See [1].", found=found))

    assert "<script>alert" not in page
    assert 'href="javascript' not in page


def test_it_says_exactly_what_was_paid_to_the_upstream(client: Client, user: User) -> None:
    run = finished(user)
    type(run.report).objects.filter(pk=run.pk).update(upstream_cost=Decimal("0.0000012300"))

    assert "$0.00000123" in page_of(client, run)
