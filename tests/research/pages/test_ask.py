from __future__ import annotations

import pytest
from django.test import Client

from portal.models.users import User
from research.models.presets import Preset
from research.models.runs import Door, Run
from tests.portal.people import somebody
from tests.research.pages.cast import a_run, finished, logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return somebody(credits=3)


@pytest.fixture
def client(user: User) -> Client:
    return logged_in(user)


def typed(client: Client, **fields: str) -> dict[str, str]:
    """The form as the page gave it, filled in."""
    form = client.get("/").context["asking"].form
    return {"form": form, "question": "Why are there tides?", "preset": "30m", **fields}


def test_it_asks_and_leads_to_the_run(client: Client, user: User) -> None:
    answer = client.post("/", typed(client))

    run = Run.objects.get(user=user)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/runs/{run.public_id}")
    assert (run.question, run.preset, run.door) == ("Why are there tides?", "30m", Door.BROWSER)


def test_it_makes_one_run_of_a_form_that_is_sent_twice(client: Client, user: User) -> None:
    form = typed(client)

    first, second = client.post("/", form), client.post("/", form)

    assert first.headers["Location"] == second.headers["Location"]
    assert Run.objects.filter(user=user).count() == 1
    assert "asked this before" in client.get(second.headers["Location"]).text


def test_it_makes_another_run_of_a_form_that_was_changed(client: Client, user: User) -> None:
    form = typed(client, preset="2m")

    client.post("/", form)
    client.post("/", form | {"question": "And why two a day?"})

    assert Run.objects.filter(user=user).count() == 2


def test_it_keeps_what_was_typed_and_says_what_is_wrong(client: Client, user: User) -> None:
    answer = client.post("/", typed(client, domains="a@b.org", instructions="In verse."))

    assert answer.status_code == 400
    assert answer.context["errors"].keys() == {"domains"}
    for kept in ("Why are there tides?", "In verse.", "a@b.org"):
        assert kept in answer.text
    assert 'id="domains-error"' in answer.text
    assert not Run.objects.filter(user=user).exists()


def test_it_shows_price_usual_time_and_credits(client: Client) -> None:
    page = client.get("/").text

    for preset in Preset.objects.filter(enabled=True):
        assert preset.title in page
    assert "<strong>3 credits</strong> left" in page
    assert "about 10 min" in page


def test_it_hides_presets_that_are_switched_off(client: Client) -> None:
    Preset.objects.filter(name="60m").update(enabled=False)

    assert "Exhaustive" not in client.get("/").text


def test_it_cannot_ask_without_credits_and_says_whom_to_ask() -> None:
    admin = somebody(admin=True)
    page = logged_in(somebody(credits=1)).get("/")

    assert page.context["short"]
    assert "Not enough credits" in page.text
    assert f"mailto:{admin.email}" in page.text
    assert 'id="ask-button" disabled' in page.text


def test_it_offers_examples_to_newcomers_and_recent_runs_to_others(client: Client, user: User) -> None:
    newcomer = client.get("/").text
    run = a_run(user)
    regular = client.get("/").text

    assert "data-question" in newcomer
    assert run.public_id not in newcomer
    assert "data-question" not in regular
    assert run.public_id in regular


def test_it_fills_in_an_example_without_script(client: Client) -> None:
    assert client.get("/", {"q": "Why <b>?"}).context["asking"].question == "Why <b>?"


def test_it_follows_up_an_earlier_run(client: Client, user: User) -> None:
    run = finished(user)

    page = client.get("/", {"previous": run.public_id})
    client.post("/", typed(client, previous=run.public_id, preset="2m"))

    assert run.title in page.text
    assert Run.objects.exclude(pk=run.pk).get().previous_id == run.pk


def test_it_asks_again_with_everything_as_it_was(client: Client, user: User) -> None:
    run = a_run(user, "Once more?", preset="2m")

    asking = client.get("/", {"again": run.public_id}).context["asking"]

    assert (asking.question, asking.preset) == ("Once more?", "2m")


@pytest.mark.parametrize("word", ["previous", "again"])
def test_it_knows_nothing_of_other_peoples_runs(client: Client, word: str) -> None:
    theirs = finished(somebody())

    page = client.get("/", {word: theirs.public_id})

    assert page.status_code == 200
    assert theirs.title not in page.text


def test_it_cannot_follow_up_what_is_not_there(client: Client, user: User) -> None:
    answer = client.post("/", typed(client, previous=finished(somebody()).public_id))

    assert answer.status_code == 400
    assert "No response with this id exists" in answer.text


def test_it_holds_people_to_their_limit(client: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(requests_per_minute=0)

    answer = client.post("/", typed(client))

    assert answer.status_code == 429
    assert "Too many requests" in answer.text
    assert not Run.objects.filter(user=user).exists()


def test_it_refuses_a_form_of_another_site(user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")

    answer = client.post("/", {"question": "Why?"})

    assert answer.status_code == 403
    assert "This form is out of date" in answer.text
    assert not Run.objects.exists()
