"""An administrator at work on accounts, models and patterns, through the real pages."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from portal.models.audit import AuditEntry
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel, PromptPattern
from proxy.services.cookie_steps import COOKIE_STEPS
from tests.portal.admin.site import Site, told
from tests.portal.people import somebody
from tests.proxy.accounts import account, occupy, token
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sandbox")]
EVE = "sandbox-pro-evelyn"


@pytest.fixture
def site() -> Site:
    return Site()


def form_of(mine: WebAccount, **changes: Any) -> dict[str, Any]:
    """The form of an account as its page shows it, with changes."""
    shown = {name: getattr(mine, name) for name in ("name", "tier", "priority", "parallel_limit")}
    return shown | {"enabled": "on", "cookie": ""} | changes


def new(**changes: Any) -> dict[str, Any]:
    return {"name": "eve", "cookie": EVE, "tier": "", "priority": "1", "parallel_limit": "4"} | changes


def test_it_adds_an_account_whose_cookie_is_accepted(site: Site) -> None:
    site.add(WebAccount, **new())

    mine = WebAccount.objects.get()
    assert (mine.name, mine.tier, mine.health, mine.parallel_limit) == ("eve", "pro", "active", 4)
    assert token(mine) == EVE
    assert AuditEntry.objects.filter(action="web_account.session_replaced", actor=site.admin).exists()


def test_the_operator_s_word_on_the_tier_counts(site: Site) -> None:
    site.add(WebAccount, **new(tier="max"))

    assert (WebAccount.objects.get().tier, WebAccount.objects.get().told_tier) == ("max", "pro")


@pytest.mark.parametrize(
    ("cookie", "said"),
    [
        ("", "This field is required."),
        ("theme=dark; lang=en", "There is no cookie"),
        ("sandbox-expired-evelyn", "Perplexity does not accept this session."),
        ("sandbox-blocked-evelyn", "network protection refuses us"),
        ("eyJhbGciOiJkaXIi-not-of-the-sandbox", "told to use the sandbox"),
    ],
)
def test_it_adds_no_account_without_a_session(site: Site, cookie: str, said: str) -> None:
    answer = site.add(WebAccount, **new(cookie=cookie))

    assert not WebAccount.objects.exists()
    page = answer.content.decode()
    assert said in page
    assert not cookie or cookie not in page


def test_it_says_in_words_that_an_account_takes_some_work(site: Site) -> None:
    page = site.add(WebAccount, **new(parallel_limit="0")).content.decode()

    assert "At least 1" in page
    assert "web_account_takes_some_work" not in page


def test_the_form_says_in_four_steps_how_a_cookie_is_copied(site: Site) -> None:
    mine = account()
    for page in (site.look(WebAccount, "add"), site.look(WebAccount, "change", mine.pk)):
        shown = page.content.decode()
        assert len(COOKIE_STEPS) == 4
        assert all(step in shown for step in COOKIE_STEPS)


def test_no_page_shows_a_cookie(site: Site) -> None:
    mine = account(health_reason="over", health="expired")
    for answer in (
        site.look(WebAccount),
        site.look(WebAccount, "change", mine.pk),
        site.look(WebAccount, "history", mine.pk),
        site.look(WebAccount, "delete", mine.pk),
    ):
        shown = answer.content.decode()
        assert answer.status_code == 200
        assert "sandbox-max-tester" not in shown
        assert mine.jar not in shown


def test_it_changes_an_account_and_not_what_others_write_meanwhile(site: Site) -> None:
    mine = account(remaining_pro=7)

    site.change(mine, **form_of(mine, name="renamed", parallel_limit="3", tier="pro"))

    mine.refresh_from_db()
    assert (mine.name, mine.parallel_limit, mine.tier, mine.remaining_pro) == ("renamed", 3, "pro", 7)
    assert token(mine) == "sandbox-max-tester"


def test_its_form_takes_a_new_cookie(site: Site) -> None:
    mine = account(health="expired", tier="max")

    site.change(mine, **form_of(mine, cookie=EVE))

    mine.refresh_from_db()
    assert (token(mine), mine.health, mine.tier) == (EVE, "active", "max")


def test_a_bad_cookie_in_its_form_changes_nothing(site: Site) -> None:
    mine = account()

    answer = site.change(mine, **form_of(mine, name="renamed", cookie="sandbox-expired-evelyn"))

    mine.refresh_from_db()
    assert (mine.name, token(mine)) == ("tester", "sandbox-max-tester")
    assert "sandbox-expired-evelyn" not in answer.content.decode()


def test_health_is_shown_in_colour_and_in_words(site: Site) -> None:
    account("a", health="active")
    account("b", health="expired", health_reason="signed out")

    page = site.look(WebAccount).content.decode()

    assert '<span class="health active" title="">Active</span>' in page
    assert '<span class="health expired" title="signed out">Expired</span>' in page


def test_validating_says_how_each_session_is(site: Site) -> None:
    good, bad = account("good"), account("bad", token="sandbox-expired-b")
    blocked = account("blocked", token="sandbox-blocked-c")

    said = told(site.act("validate_now", good, bad, blocked))

    assert "good is active" in said
    assert "bad is expired: Perplexity does not accept the session any more." in said
    assert "blocked is blocked: The upstream's network protection refuses us for now." in said


def test_it_replaces_a_cookie(site: Site) -> None:
    mine = account(health="expired")
    asked = site.act("replace_cookie", mine)
    assert COOKIE_STEPS[0] in asked.content.decode()

    said = told(site.act("replace_cookie", mine, cookie=EVE, confirmed="yes"))

    assert said == ["1 signed in with a new cookie."]
    assert token(mine) == EVE


def test_it_says_why_a_cookie_was_not_replaced(site: Site) -> None:
    mine = account()

    said = told(site.act("replace_cookie", mine, cookie="sandbox-expired-evelyn", confirmed="yes"))

    assert "Perplexity does not accept this session. Nothing was changed." in said[0]
    assert token(mine) == "sandbox-max-tester"


def test_one_cookie_is_for_one_account(site: Site) -> None:
    assert told(site.act("replace_cookie", account("a"), account("b"))) == ["Choose one account."]


def test_it_drains_an_account_and_says_what_is_under_way(site: Site) -> None:
    mine = account()
    occupy(mine, somebody().pk, 2)

    assert told(site.act("drain", mine)) == ["tester takes no new work; 2 answers are under way."]
    mine.refresh_from_db()
    assert mine.draining

    assert told(site.act("end_draining", mine)) == ["tester takes work again."]


def test_it_reads_what_is_left(site: Site) -> None:
    mine = account(token="sandbox-pro-reader")

    assert told(site.act("read_what_is_left", mine)) == ["tester has 600 pro and 20 research answers left."]
    unread = account("unread", token="sandbox-pro-gated-unsolved-b")
    assert "challenge" in told(site.act("read_what_is_left", unread))[0]


def test_it_discovers_models_and_says_what_changed(site: Site, sandbox: SandboxServer) -> None:
    mine = account()
    sandbox.order("sandbox-max-tester", retired=["grok46low"], added=["grok47low"])

    (said,) = told(site.act("discover_models", mine))

    assert "grok is now grok47low" in said
    assert "0 were asked" in said


def test_it_deletes_an_account_and_keeps_its_turns(site: Site) -> None:
    mine, user = account(), somebody()
    occupy(mine, user.pk)

    site.client.post(site.address(WebAccount, "delete", mine.pk), {"post": "yes"})

    assert not WebAccount.objects.exists()
    assert user.chat_turns.get().account is None
    assert AuditEntry.objects.filter(action="webaccount.deleted").exists()


def test_it_says_what_answers_when_the_last_account_is_gone(site: Site, settings: Settings) -> None:
    settings.SONDE_UPSTREAM, settings.PERPLEXITY_API_KEY, settings.PPLX_COOKIE = "live", "", ""
    first, last = account("first", sandbox=False), account("last", sandbox=False)

    def told_after(gone: WebAccount) -> list[str]:
        delete = site.address(WebAccount, "delete", gone.pk)
        return [
            word for word in told(site.client.post(delete, {"post": "yes"}, follow=True)) if "left" in word
        ]

    assert told_after(first) == []
    assert told_after(last) == [
        "Nothing is left that could answer: every run fails from now on, and costs nothing."
    ]


def test_a_list_of_accounts_takes_the_same_few_queries(site: Site) -> None:
    account("first")
    few = site.queries(WebAccount)
    for number in range(5):
        account(f"more {number}")

    assert site.queries(WebAccount) <= few


def test_it_adds_a_model_of_its_own_and_changes_a_price(site: Site) -> None:
    form = {"id": "house", "label": "", "tier": "pro", "mode": "pro", "preference": "house1", "thinking": ""}
    site.add(ChatModel, **form, price="0.5", position="3", enabled="on")
    house = ChatModel.objects.get(pk="house")
    assert (house.custom, str(house.price)) == (True, "0.5")

    site.change(house, **form, price="0.7", position="3", enabled="on")
    house.refresh_from_db()
    assert str(house.price) == "0.7"


@pytest.mark.parametrize("name", ["two words", "", "ä"])
def test_a_model_s_id_can_be_typed(site: Site, name: str) -> None:
    form = {"id": name, "tier": "pro", "mode": "pro", "preference": "x", "price": "1", "position": "1"}
    before = ChatModel.objects.count()

    site.add(ChatModel, **form)

    assert ChatModel.objects.count() == before


def test_it_offers_models_and_takes_them_back(site: Site) -> None:
    gpt = ChatModel.objects.get(pk="gpt")

    assert told(site.act("disable", gpt)) == ["1 no longer offered."]
    gpt.refresh_from_db()
    assert not gpt.enabled
    assert told(site.act("enable", gpt)) == ["1 offered."]


def test_a_pattern_is_a_regular_expression(site: Site) -> None:
    before = PromptPattern.objects.count()

    refused = site.add(PromptPattern, pattern="(", enabled="on", position="1")
    assert "no regular expression" in refused.content.decode()
    site.add(PromptPattern, pattern="^reply in", enabled="on", position="1")

    assert PromptPattern.objects.count() == before + 1
