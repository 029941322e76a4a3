"""The admin site in a real browser: nothing on its console, nothing that axe objects to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, sync_playwright
from pytest_django.live_server_helper import LiveServer

from portal.services.keys import create_key
from portal.services.principal import principal_of
from portal.services.users import create_user
from proxy.models.accounts import WebAccount
from tests.eyes import violations
from tests.portal.people import a_team, somebody
from tests.proxy.accounts import account
from tests.research.people import ask

# What a page looks like is the same on both engines, and looking at all of them is dear.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

LISTS = (
    "portal/apikey",
    "portal/auditentry",
    "portal/creditaccount",
    "portal/invitation",
    "portal/ledgerentry",
    "portal/membership",
    "portal/plan",
    "portal/team",
    "portal/user",
    "proxy/chatmodel",
    "proxy/promptpattern",
    "proxy/webaccount",
    "research/backendpolicy",
    "research/preset",
    "research/run",
)
FORMS = (
    "portal/apikey",
    "portal/invitation",
    "portal/membership",
    "portal/plan",
    "portal/user",
    "proxy/chatmodel",
    "proxy/promptpattern",
    "proxy/webaccount",
    "research/preset",
)
ACTIONS = (
    ("portal/user", "grant"),
    ("portal/team", "invite"),
    ("portal/apikey", "rotate"),
    ("proxy/webaccount", "replace_cookie"),
)


@pytest.fixture
def site(live_server: LiveServer, chromium_path: str) -> Iterator[Page]:
    """Logged in. All rows are made before the browser starts, whose event loop keeps Django out."""
    create_user("boss@example.org", password="a fine password", is_admin=True)
    user = somebody(None, team=a_team(5))
    create_key(user, name="ci")
    for health in WebAccount.Health.values:
        account(health, health=health)
    ask(principal_of(user))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(base_url=live_server.url)
        page.goto("/admin/")
        page.fill("input[name=login]", "boss@example.org")
        page.fill("input[name=password]", "a fine password")
        page.keyboard.press("Enter")
        page.wait_for_url("**/admin/")
        yield page
        browser.close()


def follow(page: Page, what: Locator) -> None:
    with page.expect_navigation():
        what.click()


class Eyes:
    """Looks at page after page, and keeps what is wrong."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.found: list[str] = []
        page.on("console", lambda message: self.tell(message.text))

    def tell(self, what: str) -> None:
        self.found.append(f"{self.page.url}: {what}")

    def look(self) -> None:
        for what in violations(self.page):
            self.tell(what)


def test_it_is_clean_in_a_browser(site: Page) -> None:
    eyes = Eyes(site)
    eyes.look()
    for name in LISTS:
        site.goto(f"/admin/{name}/")
        eyes.look()
        if (row := site.locator("#result_list tbody th a").first).count():
            follow(site, row)
            eyes.look()
    for name in FORMS:
        site.goto(f"/admin/{name}/add/")
        eyes.look()
    for name, action in ACTIONS:
        site.goto(f"/admin/{name}/")
        site.locator("input[name=_selected_action]").first.check()
        site.select_option("select[name=action]", action)
        follow(site, site.locator("button[name=index]"))
        eyes.look()

    assert eyes.found == []
