"""Connect's try of the MCP endpoint, clicked: with a key that somebody pastes."""

from __future__ import annotations

import httpx
from playwright.sync_api import Page, expect

from tests.journeys.conftest import Person
from tests.mcp.clients import ACCEPT, call
from tests.mcp.test_clients import NAMES


def tries(page: Page, key: str) -> None:
    page.get_by_label("A key", exact=True).fill(key)
    page.get_by_role("button", name="List the tools").click()


def test_it_shows_the_tools_that_a_key_opens(person: Person) -> None:
    page = person.opens("/connect")
    tries(page, f" {person.server.api_key}\n")
    result = page.get_by_role("status")
    expect(result).to_contain_text("It works: 12 tools.")
    assert result.get_by_role("listitem").all_inner_texts() == NAMES


def test_it_says_what_keeps_a_key_from_it(person: Person) -> None:
    email = person.server.email
    made = person.server.manage("create_api_key", email, "--name", "shut", "--scopes", "research,chat")
    page = person.opens("/connect")
    result = page.get_by_role("status")
    tries(page, person.server.api_key[:-3] + "abc")
    expect(result).to_contain_text("It does not work: Incorrect API key provided")
    tries(page, made.stdout.strip())
    expect(result).to_contain_text("It does not work: This key lacks the scope 'mcp'.")
    tries(page, "sonde_… (copied in part)")
    expect(result).to_contain_text("It does not work: This is no key")
    page.context.set_offline(True)
    tries(page, person.server.api_key)
    expect(result).to_contain_text("It does not work: The portal cannot be reached.")
    # The browser's own words for each refusal.
    assert [words.partition(" (http")[0] for words in person.said] == SAID
    person.said.clear()


def test_it_shows_on_an_open_page_what_an_agent_does(person: Person) -> None:
    """The page's socket and MCP come to one address (mcp-server §6.17)."""
    path = person.asks("Why? [sandbox:duration=60]")
    page = person.opens("/connect")
    with page.expect_websocket() as opened:
        page.goto(person.server.url + path)
    expect(page.locator(".gauge")).to_be_visible()
    run = {"id": path.rpartition("/")[2]}
    with opened.value.expect_event("framereceived"):
        answer = httpx.post(
            f"{person.server.url}/mcp",
            json=call("tools/call", name="cancel_research", arguments=run),
            headers={"Authorization": f"Bearer {person.server.api_key}", **ACCEPT},
        )
    assert '"isError":false' in answer.text
    expect(page.locator(".run-meta .status")).to_have_text("Stopped")


SAID = [
    "error: Failed to load resource: the server responded with a status of 401 (Unauthorized)",
    "error: Failed to load resource: the server responded with a status of 403 (Forbidden)",
    "error: Failed to load resource: net::ERR_INTERNET_DISCONNECTED",
]
