"""Every page as people meet it: by eye, by ear, by keyboard, on a phone, in the dark, without script."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, FilePayload, Page, StorageState, expect

from tests.eyes import colour_violations, violations
from tests.journeys.conftest import PHONE, WIDE, Person
from tests.running_server import RunningServer

LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverleihung" * 3
QUESTIONS = {
    "report": "Why do rivers bend?",
    "right-to-left": "Why do rivers bend? [sandbox:right-to-left]",
    "hostile": "Why do rivers bend? [sandbox:hostile] [sandbox:hostile-sources]",
    "thinking": "Why do rivers bend? [sandbox:think] [sandbox:marks-range]",
    "no sources": "Why do rivers bend? [sandbox:no-sources]",
    "incomplete": "Why do rivers bend? [sandbox:incomplete]",
    "failed": "Why do rivers bend? [sandbox:failed]",
    "long words": f"{LONG}? [sandbox:urls-odd]",
}


@pytest.fixture(scope="module")
def runs(chromium: Browser, server: RunningServer, login: StorageState) -> dict[str, str]:
    """A run of every kind, and one that never ends: name → path."""
    someone = Person(chromium, server, login)
    paths = {name: someone.asks(question) for name, question in QUESTIONS.items()}
    for path in paths.values():
        someone.waits_for(path)
    return {**paths, "live": someone.asks("Why do rivers bend? [sandbox:stuck]", preset="30m")}


def pages_of(runs: dict[str, str]) -> Iterator[str]:
    yield from ("/", "/?previous=" + runs["report"].rpartition("/")[2], "/runs", "/chat", "/keys", "/connect")
    yield from ("/library", "/library?q=rivers&kind=run", "/library?q=lakes", "/library?kind=chat&tag=none")
    yield from ("/team", "/team/reports", "/account/password/change/", "/account/logout/")
    yield from runs.values()


OPEN_PAGES = ("/account/login/", "/account/password/reset/", "/account/signup/")


def unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('main details').forEach(fold => { fold.open = true })")


def sideways(page: Page) -> int:
    """Pixels that the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


def faults(page: Page) -> list[str]:
    """What is wrong with the open page by day and by night, and whether it is too wide."""
    by_day = violations(page)
    page.emulate_media(color_scheme="dark")
    by_night = colour_violations(page)
    page.emulate_media(color_scheme="light")
    too_wide = [f"{sideways(page)} pixels too wide"] if sideways(page) > 0 else []
    return [*by_day, *(f"dark: {fault}" for fault in by_night), *too_wide]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_is_open_to_everyone_and_never_wider_than_the_window(
    person: Person, runs: dict[str, str], size: tuple[int, int]
) -> None:
    page = person.opens("/runs", size)
    for path in pages_of(runs):
        page.goto(person.server.url + path)
        unfold(page)
        assert faults(page) == [], path


def test_it_is_open_to_everyone_before_they_are_in(stranger: Person) -> None:
    page = stranger.opens(OPEN_PAGES[0], PHONE)
    for path in OPEN_PAGES:
        page.goto(stranger.server.url + path)
        assert faults(page) == [], path


def test_it_keeps_the_administration_open_to_everyone(person: Person) -> None:
    page = person.opens("/admin/")

    assert faults(page) == []
    expect(page.locator("#site-name")).to_contain_text("Sonde")


def test_it_takes_a_small_window_too(person: Person, runs: dict[str, str]) -> None:
    page = person.opens("/", (320, 640))
    for path in pages_of(runs):
        page.goto(person.server.url + path)
        unfold(page)
        assert sideways(page) <= 0, path


def test_it_can_be_used_by_keyboard_alone(person: Person) -> None:
    page = person.opens("/")
    expect(page.get_by_label("Your question")).to_be_focused()

    page.keyboard.type("Can this be asked without a mouse?")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Attach files")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name=re.compile("Deep"))).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("radio", name=re.compile("Standard"))).to_be_checked()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_focused()
    page.keyboard.press("Enter")

    page.wait_for_url("**/runs/resp_*")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator(".report")).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_it_keeps_the_stop_button_in_focus_while_the_page_changes(
    person: Person, runs: dict[str, str]
) -> None:
    page = person.opens(runs["live"])
    page.get_by_role("button", name="Stop", exact=True).focus()

    with page.expect_response("**/live?after=*"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_focused()


def test_it_sends_the_question_by_ctrl_and_enter(person: Person) -> None:
    page = person.opens("/")
    page.keyboard.type("Sent by two keys?")

    page.keyboard.press("Control+Enter")

    page.wait_for_url("**/runs/resp_*")


def test_it_grows_with_the_question(person: Person) -> None:
    page = person.opens("/")
    question = page.get_by_label("Your question")
    before = question.evaluate("field => field.offsetHeight")

    question.fill("a line\n" * 12)

    assert question.evaluate("field => field.offsetHeight") > before + 100


def test_it_says_why_one_cannot_ask_as_soon_as_a_depth_is_too_dear(person: Person) -> None:
    page = person.opens("/")
    page.evaluate("document.getElementById('ask-form').dataset.left = '1'")

    page.get_by_role("radio", name=re.compile("Exhaustive")).check(force=True)
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
    expect(page.locator("#why-not")).to_contain_text("this depth costs 4 credits")

    page.get_by_role("radio", name=re.compile("Quick")).check(force=True)
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_enabled()
    expect(page.locator("#why-not")).to_be_hidden()


def test_it_sends_no_more_files_than_there_may_be(person: Person) -> None:
    page = person.opens("/")
    page.get_by_label("Your question").fill("Is this too much?")
    files = page.get_by_label("Attach files")
    one = FilePayload(name="one.txt", mimeType="text/plain", buffer=b"one")

    files.set_input_files([one] * 6)
    page.get_by_role("button", name="Ask", exact=True).click()
    told = files.evaluate("field => field.validationMessage")
    files.set_input_files([one] * 5)

    assert told == "Choose up to 5 files, of 20 MB together."
    assert page.url == f"{person.server.url}/"
    assert files.evaluate("field => field.validity.valid")


def test_it_remembers_a_chosen_theme_in_the_administration_too(person: Person) -> None:
    page = person.opens("/")
    toggle = page.get_by_role("button", name=re.compile("Theme"))
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)

    toggle.click()
    toggle.click()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    dark = page.evaluate(paper)
    page.reload()

    assert light != dark == page.evaluate(paper)
    page.goto(f"{person.server.url}/admin/")
    assert page.evaluate(paper) == dark


def test_it_shows_a_new_key_once(person: Person) -> None:
    page = person.opens("/keys")
    page.get_by_text("Make a key").click()
    page.get_by_label("Name").fill("From the browser")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("heading", name="“From the browser” is ready")).to_be_focused()
    expect(page.locator("#new-key-text")).to_have_text(re.compile(r"^sonde_\w{10}_[\w-]{43}$"))
    assert violations(page) == []
    assert sideways(page) <= 0

    page.reload()

    expect(page.locator("#new-key-text")).to_have_count(0)
    expect(page.get_by_role("heading", name="From the browser")).to_have_count(1)


def test_it_revokes_a_key_after_asking_once_more(person: Person) -> None:
    page = person.opens("/keys")
    page.get_by_text("Make a key").click()
    page.get_by_label("Name").fill("Not for long")
    page.get_by_role("button", name="Make the key").click()
    card = page.get_by_role("article", name="Not for long")

    card.get_by_role("button", name="Revoke", exact=True).click()
    assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Revoke it").click()

    expect(page.locator(".messages")).to_contain_text("is revoked")
    expect(card.get_by_role("button")).to_have_count(0)


def test_it_takes_somebody_into_the_team_by_a_link_and_out_again(
    person: Person, stranger: Person, runs: dict[str, str]
) -> None:
    lead = person.opens("/team")
    unfold(lead)
    lead.get_by_role("button", name="Make a link").click()
    expect(lead.get_by_role("heading", name="The invitation is ready")).to_be_focused()
    assert violations(lead) == []
    link = lead.locator("#invited-link").inner_text()
    lead.reload()
    expect(lead.get_by_text("The invitation is ready")).to_have_count(0)

    newcomer = stranger.opens(link.removeprefix(person.server.url), PHONE)
    newcomer.get_by_label("Email").fill("ada@example.org")
    newcomer.get_by_label("Name").fill("Ada Lovelace")
    newcomer.get_by_label("Password").fill("a fine password")
    newcomer.get_by_role("button", name="Join").click()
    newcomer.get_by_label("Your question").wait_for()
    newcomer.goto(f"{person.server.url}/team")
    expect(newcomer.get_by_role("article", name="Ada Lovelace")).to_contain_text("You")
    newcomer.locator("main").get_by_role("button").click()
    expect(newcomer.get_by_role("dialog")).to_contain_text("The reports you shared with it are taken back")
    assert violations(newcomer) == []
    newcomer.keyboard.press("Enter")  # stay
    expect(newcomer.get_by_role("dialog")).to_have_count(0)
    assert violations(newcomer) == []
    assert sideways(newcomer) <= 0

    watching = person.opens(runs["live"])
    watching.get_by_role("button", name="Share with team").click()
    expect(watching.get_by_text("can read this now.")).to_be_visible()
    assert violations(watching) == []
    newcomer.get_by_role("link", name="Shared reports").click()
    newcomer.get_by_role("link", name="sandbox:stuck").focus()
    assert violations(newcomer) == []
    assert sideways(newcomer) <= 0
    newcomer.keyboard.press("Enter")
    expect(newcomer.locator(".sharing")).to_contain_text(f"{person.server.email} shared this with")
    expect(newcomer.locator("main").get_by_role("button")).to_have_count(0)
    assert violations(newcomer) == []
    assert sideways(newcomer) <= 0
    watching.get_by_role("button", name="Take back").click()
    expect(watching.get_by_role("button", name="Share with team")).to_be_visible()
    newcomer.reload()
    expect(newcomer.get_by_role("heading", name="There is nothing here")).to_be_visible()
    stranger.said.clear()  # of a page that is not there
    newcomer.goto(f"{person.server.url}/team")

    lead.goto(f"{person.server.url}/team")
    lead.get_by_role("article", name="Ada Lovelace").get_by_role("button", name="Remove").click()
    assert violations(lead) == []
    lead.get_by_role("dialog").get_by_role("button", name="Remove them").click()
    expect(lead.locator(".messages")).to_contain_text("is no longer in the team")
    newcomer.reload()
    expect(newcomer.get_by_role("heading", name="You are in no team")).to_be_visible()


def test_it_finds_a_run_again_in_the_library_and_tags_it(person: Person, runs: dict[str, str]) -> None:
    page = person.opens("/library")
    rows = page.locator(".library-row")

    page.get_by_role("searchbox").press_sequentially("bend think marks ran")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("q=bend"))
    expect(page.locator("#library-said")).to_have_text("1 found.")
    rows.locator("summary").press("Enter")
    rows.get_by_label("New tag").fill("Deep sea")
    rows.get_by_label("New tag").press("Enter")
    expect(rows.get_by_role("link", name="Everything tagged deep sea")).to_be_visible()

    page.get_by_role("searchbox").fill("")
    expect(rows.nth(2)).to_be_visible()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Tag", exact=True).select_option("deep sea")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Without filters").click()
    page.locator("a.tag").click()
    rows.locator(".title").click()
    page.wait_for_url(f"**{runs['thinking']}")


def test_it_works_without_script(person: Person) -> None:
    context = person.chromium.new_context(storage_state=person.login, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{person.server.url}/")
    page.get_by_label("Your question").fill("Is a script needed?")
    page.locator("input[value='2m']").check(force=True)
    page.get_by_role("button", name="Ask", exact=True).click()

    expect(page.locator(".gauge")).to_contain_text("Waiting for")
    expect(page.locator(".report")).to_be_visible()
    context.close()
