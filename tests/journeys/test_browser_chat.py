"""A talk in the browser: asked, watched as it is written, stopped, gone on with, found again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.eyes import colour_violations, violations
from tests.journeys.conftest import PHONE, WIDE, Person, log_in
from tests.proxy.chatting import say
from tests.running_server import RunningServer

STAYED = "window.stayed = true"
CODE = say("Here:\n\n```py\nprint(1)\n```\n")
LONG = say("One more paragraph.\n\n" * 80)
ARABIC = say("# عنوان\n\nنص عربي. `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |")


def begin(person: Person, text: str, **window: Any) -> Page:
    page = person.opens("/chat", **window)
    send(page, text)
    page.wait_for_url(re.compile(r"/chat/[0-9a-f-]{36}$"))
    return page


def send(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.keyboard.press("Enter")


def expect_done(page: Page, turns: int = 1) -> None:
    expect(page.locator(".turn")).to_have_count(turns)
    expect(page.locator(".turn").last).to_have_attribute("data-live", "no")
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def last(page: Page, what: str) -> Any:
    return page.locator(".turn").last.locator(what)


def test_it_talks_stops_goes_on_and_finds_it_again(person: Person) -> None:
    page = begin(person, "Why do rivers bend? [sandbox:duration=3]")
    page.evaluate(STAYED)

    expect(last(page, ".answer")).to_contain_text("simulated answer")
    expect(page.locator(".turn").last).to_have_attribute("data-live", "yes")
    expect_done(page)
    expect(last(page, ".cites a").first).to_be_visible()
    expect(last(page, ".answer-foot")).to_contain_text("0.1 credits")
    expect(page.get_by_role("status").filter(has_text="The answer is here.")).to_have_count(1)

    send(page, "And why slowly? [sandbox:duration=30]")
    expect(page.get_by_label("Your message")).to_have_value("")
    expect(last(page, ".answer")).to_contain_text("simulated")
    page.get_by_role("button", name="Stop").click()
    expect(last(page, "[data-part=state]")).to_contain_text("You stopped this answer.")
    expect_done(page, turns=2)

    send(page, f"Then say it. {say('Said.')}")
    expect(last(page, ".answer")).to_contain_text("Said.")
    expect_done(page, turns=3)
    assert page.evaluate("window.stayed")

    page.reload()
    expect(page.locator(".asked")).to_have_count(3)
    expect(last(page, ".answer")).to_contain_text("Said.")
    page.get_by_role("link", name="New chat").click()
    page.get_by_role("navigation", name="Your chats").get_by_role(
        "link", name="Why do rivers bend?"
    ).first.click()
    expect(page.locator(".asked").first).to_contain_text("Why do rivers bend?")


@pytest.mark.cluster
def test_it_is_written_live_when_web_and_worker_are_processes_apart(
    chromium: Browser, cluster: RunningServer
) -> None:
    someone = Person(chromium, cluster, log_in(chromium, cluster))
    page = begin(someone, "Why do cats purr? [sandbox:duration=4]")
    page.evaluate(STAYED)

    expect(last(page, ".answer")).to_contain_text("simulated answer")
    expect(page.locator(".turn").last).to_have_attribute("data-live", "yes")
    expect_done(page)

    assert page.evaluate("window.stayed")
    page.context.close()
    assert someone.said == []


def test_it_goes_on_writing_while_the_tab_is_closed(person: Person) -> None:
    page = begin(person, "Where do eels go? [sandbox:duration=2]")
    path = page.url.removeprefix(person.server.url)
    page.close()

    page = person.opens(path)

    expect(last(page, ".answer")).to_contain_text("lead somewhere")
    expect_done(page)


def test_it_keeps_what_was_written_when_the_portal_dies(chromium: Browser, tmp_path: Path) -> None:
    with RunningServer(tmp_path) as server:
        someone = Person(chromium, server, log_in(chromium, server))
        page = begin(someone, "Where do storms go? [sandbox:duration=60]")
        expect(last(page, ".answer")).to_contain_text("simulated answer")
        address = page.url
        page.goto("about:blank")

        server.kill()
        server.start()

        page.goto(address)
        expect(last(page, ".note.bad")).to_contain_text("The answer broke off")
        expect(last(page, ".note.bad")).to_contain_text("It cost 0.1 credits.")
        expect(last(page, ".answer")).to_contain_text("simulated answer")
        page.context.close()
        assert someone.said == []


def without_hints(person: Person, *, connects: bool) -> Page:
    """A page whose socket is refused, or brings nothing."""
    page = person.opens("/keys")

    def route(socket: WebSocketRoute) -> None:
        if connects:
            socket.connect_to_server().on_message(lambda message: None)
        else:
            socket.close(code=1011)

    page.route_web_socket(re.compile("/ws/"), route)
    page.goto(f"{person.server.url}/chat")
    return page


@pytest.mark.parametrize("connects", [False, True], ids=["no socket", "no hint"])
def test_it_needs_no_single_hint(person: Person, connects: bool) -> None:
    page = without_hints(person, connects=connects)

    send(page, "What is chalk? [sandbox:duration=1]")

    page.wait_for_url(re.compile("/chat/.+"))
    expect_done(page)
    expect(last(page, ".answer")).to_contain_text("lead somewhere")


def test_it_says_what_went_wrong_and_tries_again(person: Person) -> None:
    page = begin(person, "Will it rain? [sandbox:web.invalid]")
    expect(last(page, ".note.bad")).to_contain_text("It cost you nothing.")

    page.get_by_role("button", name="Try again").click()

    expect(page.locator(".turn")).to_have_count(2)
    expect(last(page, ".note.bad")).to_be_visible()


def test_it_takes_a_question_up_again(person: Person) -> None:
    page = begin(person, f"Why so? {say('So.')}")
    expect_done(page)
    box = page.get_by_label("Your message")

    page.get_by_role("button", name="Ask again").click()
    expect(box).to_have_value(re.compile(r"^Why so\?"))
    page.keyboard.press("Control+z")
    expect(box).to_have_value("")
    page.keyboard.press("ArrowUp")
    expect(box).to_have_value(re.compile(r"^Why so\?"))


def test_it_leads_back_to_the_end(person: Person) -> None:
    page = begin(person, f"Long? {LONG}")
    expect_done(page)
    way = page.get_by_role("button", name="To the end")
    expect(way).to_be_hidden()

    page.mouse.wheel(0, -2000)
    way.click()

    expect(way).to_be_hidden()
    expect(last(page, ".answer-foot")).to_be_in_viewport()


def test_it_says_what_happened_to_the_chat_in_another_window(person: Person) -> None:
    page = begin(person, f"Hello {say('Hello.')}")
    expect_done(page)
    other = person.opens("/keys")
    other.route_web_socket(re.compile("/ws/"), lambda socket: socket.close(code=1011))
    other.goto(page.url)
    told = other.get_by_role("alert")

    send(page, "A long one? [sandbox:duration=60]")
    expect(page.locator(".turn")).to_have_count(2)
    send(other, "Me too?")
    expect(told).to_contain_text("still being written")
    page.get_by_role("button", name="Stop").click()
    expect_done(other, turns=2)
    expect(told).to_be_hidden()

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    page.wait_for_url(re.compile("/chat$"))
    other.get_by_label("Your message").press("Enter")
    expect(told).to_contain_text("it was deleted")
    expect(other.get_by_label("Your message")).to_have_value("Me too?")
    assert [
        said for said in person.said if "400 (Bad Request)" not in said and "404 (Not Found)" not in said
    ] == []
    person.said.clear()


def test_it_keeps_what_was_written_by_somebody_who_is_logged_out(person: Person) -> None:
    page = begin(person, f"Hello {say('Hello.')}")
    expect_done(page)
    page.context.clear_cookies(name="sessionid")

    send(page, "A long thought.")

    expect(page.get_by_role("alert")).to_contain_text("You are logged out.")
    with page.expect_response(re.compile("/live")):  # it looks again when it comes into view
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_label("Your message")).to_have_value("A long thought.")


def test_it_copies_an_answer_and_its_code(person: Person) -> None:
    page = begin(person, f"Code? {CODE}")
    expect_done(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    page.get_by_role("button", name="Copy code").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "print(1)\n"

    page.get_by_role("button", name="Copy", exact=True).click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.startsWith('Here:'))")


def test_it_keeps_the_box_in_hand(person: Person) -> None:
    page = person.opens("/chat")
    box = page.get_by_label("Your message")
    expect(box).to_be_focused()

    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    expect(box).to_have_value("one\ntwo")
    box.fill("x" * 96_001)
    expect(page.get_by_text("96,001 characters: at most 96,000 can be sent.")).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_disabled()

    page.get_by_label("Model").select_option("grok")
    expect(page.get_by_text("Thinking", exact=True)).to_be_hidden()
    page.get_by_label("Model").select_option("auto")
    expect(page.locator("#cost")).to_have_text("free")
    box.fill("Sent by two keys?")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile("/chat/.+"))


def test_it_shows_a_source_beside_its_mark(person: Person) -> None:
    page = begin(person, "Why do leaves fall?")
    expect_done(page)

    last(page, ".cites a").first.hover()

    expect(page.locator(".cite-card").get_by_role("link")).to_be_visible()


def test_it_keeps_a_fold_open_while_the_answer_grows(person: Person) -> None:
    page = begin(person, "Why? [sandbox:duration=3]")
    last(page, ".steps summary").click()

    expect_done(page)

    expect(last(page, ".steps li").first).to_be_visible()


def test_it_renames_and_deletes_after_asking_once_more(person: Person) -> None:
    page = begin(person, f"Hello {say('Hello.')}")
    expect_done(page)

    page.get_by_role("button", name="Rename").click()
    assert violations(page) == []
    page.get_by_label("Name", exact=True).fill("Greetings, twice")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Greetings, twice")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()

    expect(page.locator(".messages")).to_contain_text("The chat is deleted.")
    expect(page.get_by_role("link", name="Greetings, twice")).to_have_count(0)


def test_it_is_open_to_everyone_in_every_state(person: Person) -> None:
    page = begin(person, f"لماذا {ARABIC}")
    expect_done(page)
    send(page, "Why? [sandbox:web.invalid]")
    expect(last(page, ".note.bad")).to_be_visible()
    send(page, f"{'long' * 60} [sandbox:duration=60]")
    expect(last(page, ".answer")).to_contain_text("simulated")
    path = page.url.removeprefix(person.server.url)

    for size in (WIDE, PHONE):
        page = person.opens(path, size)
        page.evaluate("document.querySelectorAll('main details').forEach(fold => { fold.open = true })")
        for address in (path, "/chat"):
            page.goto(person.server.url + address)
            assert violations(page) == [], (address, size)
            page.emulate_media(color_scheme="dark")
            assert colour_violations(page) == [], (address, size, "dark")
            page.emulate_media(color_scheme="light")
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wide) <= 0, (address, size)


def test_it_works_without_script(person: Person) -> None:
    context = person.chromium.new_context(storage_state=person.login, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{person.server.url}/chat")
    page.get_by_label("Your message").fill("Is a script needed? [sandbox:duration=1]")
    page.get_by_role("button", name="Send").click()

    page.wait_for_url(re.compile("/chat/.+"))
    expect(page.locator(".turn")).to_have_attribute("data-live", "no")
    expect(page.locator(".answer")).to_contain_text("lead somewhere")
    context.close()
