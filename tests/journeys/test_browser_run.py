"""A question's way through the browser: asked, watched, read."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Browser, FilePayload, Page, WebSocketRoute, expect

from tests.journeys.conftest import PHONE, Person, log_in
from tests.running_server import RunningServer

STAYED = "window.stayed = true"
PAPER = FilePayload(name="paper.txt", mimeType="text/plain", buffer=b"Rivers bend. " * 250_000)
"""Larger than any form that brings no files may be."""


def ask(page: Page, question: str, depth: str = "Quick") -> None:
    page.get_by_label("Your question").fill(question)
    page.get_by_role("radio", name=re.compile(depth)).check(force=True)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/runs/resp_*")


def expect_report(page: Page) -> None:
    expect(page.locator(".report h2").first).to_contain_text("Simulated report")
    expect(page.locator(".run-meta .status")).to_have_text("Completed")


def watch_to_the_report(page: Page) -> None:
    """Every stage arrives on the page that is open; nothing reloads it."""
    page.evaluate(STAYED)
    expect(page.locator(".gauge")).to_be_visible()
    expect(page.locator(".event", has_text="has begun the research")).to_be_visible()
    expect(page.locator(".event", has_text=re.compile("Made .* search")).first).to_be_visible()
    expect_report(page)
    expect(page.locator(".gauge")).to_have_count(0)
    expect(page).to_have_title("Why do cats purr? · Sonde")
    assert page.evaluate("window.stayed")


def test_it_asks_watches_and_reads(person: Person) -> None:
    page = person.opens("/")

    ask(page, "Why do cats purr?")
    watch_to_the_report(page)

    expect(page.get_by_role("heading", level=1)).to_have_text("Why do cats purr?")
    expect(page.locator(".source")).to_have_count(8)
    expect(page.locator(".receipt")).to_contain_text("1 credit")
    expect(page.get_by_role("status").filter(has_text="The report is here.")).to_have_count(1)
    events = page.locator(".report-log .event").evaluate_all("all => all.map(one => +one.dataset.seq)")
    assert events == list(range(1, len(events) + 1))


@pytest.mark.cluster
def test_it_changes_live_when_web_and_worker_are_processes_apart(
    chromium: Browser, cluster: RunningServer
) -> None:
    someone = Person(chromium, cluster, log_in(chromium, cluster))
    page = someone.opens("/")

    ask(page, "Why do cats purr?")
    watch_to_the_report(page)

    page.context.close()
    assert someone.said == []


def test_it_gets_the_report_of_a_run_that_ended_while_the_tab_was_closed(person: Person) -> None:
    page = person.opens("/")
    ask(page, "Where do eels go?")
    path = page.url.removeprefix(person.server.url)
    page.close()

    assert person.waits_for(path) == "completed"

    expect_report(person.opens(path))


def on_a_thread(person: Person, path: str, let: int) -> tuple[Page, list[WebSocketRoute]]:
    """A page whose first `let` sockets reach the portal, and those; later ones are refused at once."""
    page = person.opens("/keys")
    open_sockets: list[WebSocketRoute] = []

    def route(socket: WebSocketRoute) -> None:
        if len(open_sockets) < let:
            socket.connect_to_server()
            open_sockets.append(socket)
        else:
            socket.close(code=1011)

    page.route_web_socket(re.compile("/ws/"), route)
    page.goto(person.server.url + path)
    return page, open_sockets


def test_it_reaches_the_end_though_the_socket_was_cut(person: Person) -> None:
    page, sockets = on_a_thread(person, person.asks("What is quartz?"), let=1)
    page.evaluate(STAYED)
    expect(page.locator(".event", has_text="has begun the research")).to_be_visible()

    sockets[0].close(code=1012)

    expect_report(page)
    assert page.evaluate("window.stayed")
    assert len(sockets) == 1


def test_it_reaches_the_end_without_any_socket(person: Person) -> None:
    page, sockets = on_a_thread(person, person.asks("What is basalt?"), let=0)

    expect_report(page)
    assert sockets == []


def test_it_connects_again_and_fetches_what_it_missed(person: Person) -> None:
    page, sockets = on_a_thread(person, person.asks("What is slate? [sandbox:duration=8]"), let=2)
    expect(page.locator(".event", has_text="has begun the research")).to_be_visible()

    sockets[0].close(code=1012)

    expect_report(page)
    assert len(sockets) == 2


def test_it_needs_no_single_hint(person: Person) -> None:
    """Every hint is swallowed: a look now and then, here hurried by the clock, is enough."""
    page = person.opens("/keys")
    page.clock.install()

    def swallow(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda message: None)

    page.route_web_socket(re.compile("/ws/"), swallow)
    path = person.asks("What is chalk?")
    page.goto(person.server.url + path)
    expect(page.locator(".gauge")).to_be_visible()
    assert person.waits_for(path) == "completed"
    expect(page.locator(".gauge")).to_be_visible()

    page.clock.fast_forward(21_000)

    expect_report(page)


def test_it_says_that_the_portal_is_away_and_catches_up_when_it_is_back(person: Person) -> None:
    page, sockets = on_a_thread(person, person.asks("What is granite? [sandbox:duration=4]"), let=1)
    page.evaluate(STAYED)
    expect(page.locator(".gauge")).to_be_visible()
    notice = page.locator("#run-away")
    expect(notice).to_be_hidden()

    page.route("**/live?after=*", lambda route: route.abort("connectionrefused"))
    sockets[0].close(code=1012)
    expect(notice).to_contain_text("The portal does not answer just now.")
    page.unroute("**/live?after=*")

    expect_report(page)
    expect(notice).to_be_hidden()
    assert page.evaluate("window.stayed")
    # The browser's own word on each refused request.
    person.said[:] = [line for line in person.said if "ERR_CONNECTION_REFUSED" not in line]


def test_it_stops_a_run_after_asking_once_more(person: Person) -> None:
    page = person.opens(person.asks("How deep is the sea? [sandbox:stuck]", preset="30m"))
    page.evaluate(STAYED)

    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("You get 2 credits back.")
    page.get_by_role("button", name="Let it go on").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop it").click()

    expect(page.get_by_role("heading", name="This run was stopped")).to_be_visible()
    expect(page.locator(".ending")).to_contain_text("2 credits went back to you")
    assert page.evaluate("window.stayed")


def test_it_says_why_a_run_failed_and_lets_one_ask_again(person: Person) -> None:
    page = person.opens(person.asks("Will it rain? [sandbox:failed]"))

    expect(page.get_by_role("heading", name="This run failed")).to_be_visible()
    expect(page.locator(".ending")).to_contain_text("It cost you nothing.")
    page.get_by_role("link", name="Ask again").click()

    expect(page.get_by_label("Your question")).to_have_value("Will it rain? [sandbox:failed]")


def test_it_makes_one_run_of_a_form_sent_twice_and_of_a_reload(person: Person) -> None:
    page = person.opens("/")
    page.get_by_label("Your question").fill("Is this asked once?")
    page.get_by_label("Attach files").set_input_files([PAPER])
    page.evaluate("for (let time = 0; time < 2; time++) document.getElementById('ask-form').submit()")
    page.wait_for_url("**/runs/resp_*")
    page.reload()
    expect(page.locator("main")).to_contain_text(f"With {PAPER['name']}")

    page.goto(f"{person.server.url}/runs")

    expect(page.get_by_role("link", name="Is this asked once?")).to_have_count(1)


def test_it_shows_a_source_beside_its_mark(person: Person) -> None:
    path = person.asks("Why do leaves fall?")
    page = person.opens(path)
    expect_report(page)
    mark = page.locator(".cites a").first

    mark.hover()
    expect(page.locator(".cite-card")).to_contain_text("Placeholder 1")
    expect(page.locator("#source-1")).to_have_class(re.compile("pointed"))
    page.mouse.move(5, 5)
    expect(page.locator(".cite-card")).to_be_hidden()

    mark.focus()
    expect(page.locator(".cite-card")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".cite-card")).to_be_hidden()
    before = page.evaluate("scrollY")
    page.locator(".cites a").last.scroll_into_view_if_needed()
    page.locator(".cites a").last.click()
    assert page.evaluate("location.hash") == ""
    assert page.evaluate("scrollY") > before


def test_it_shows_a_source_to_a_finger_without_leaving_the_text(person: Person) -> None:
    path = person.asks("Why is snow white?")
    page = person.opens(path, size=PHONE)
    expect_report(page)

    page.locator(".cites a").first.tap()

    expect(page.locator(".cite-card").get_by_role("link")).to_contain_text("Placeholder 1")
    assert page.evaluate("location.hash") == ""
    page.locator(".report h2").first.tap()
    expect(page.locator(".cite-card")).to_be_hidden()


def test_it_copies_the_report_as_markdown(person: Person) -> None:
    path = person.asks("Why is salt white?")
    page = person.opens(path)
    expect_report(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    page.get_by_role("button", name="Copy as Markdown").click()

    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    headers = {"Authorization": f"Bearer {person.server.api_key}"}
    delivered = httpx.get(person.server.url + path.replace("/runs/", "/v1/agent/"), headers=headers).json()
    assert page.evaluate("navigator.clipboard.readText()") == delivered["output_text"]


def test_it_folds_the_contents_on_a_phone_and_leads_there(person: Person) -> None:
    path = person.asks("Why do we yawn?")
    page = person.opens(path, size=PHONE)
    expect_report(page)
    contents = page.locator(".contents")
    expect(contents.get_by_role("link").first).to_be_hidden()

    contents.get_by_text("Contents").click()
    contents.get_by_role("link").last.click()

    expect(contents.get_by_role("link").first).to_be_hidden()
    assert page.evaluate("scrollY") > 500
