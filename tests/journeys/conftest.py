"""A real portal, a real Chromium, and a person who is logged in.

Playwright's synchronous loop runs in the test's own thread, where neither Django's ORM nor an
asyncio test may meet it: it is started for each module and ended with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    StorageState,
    expect,
    sync_playwright,
)

from tests.migrated import new_database
from tests.running_server import RunningServer
from tests.services import running

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SPEED = {"SANDBOX_SECONDS": "3", "RESEARCH_POLL_SECONDS": "0.3"}
PATIENCE = 30_000
"""Milliseconds."""
WIDE, PHONE = (1440, 900), (390, 844)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Embedded, with a sandbox whose runs take long enough to be watched."""
    folder: Path = tmp_path_factory.mktemp("portal")
    server = RunningServer(folder)
    server.environment |= SPEED
    with server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Web, worker and beat in processes of their own: what a page learns came over Valkey."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        postgres, valkey = stack.enter_context(new_database()), stack.enter_context(running("valkey"))
        server = RunningServer(folder, mode="cluster", database_url=postgres, redis_url=valkey)
        server.environment |= SPEED
        yield stack.enter_context(server)


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass(slots=True)
class Person:
    """Somebody at a browser. What their console says is kept, and has to be nothing."""

    chromium: Browser
    server: RunningServer
    login: StorageState | None
    said: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def opens(self, path: str = "/", size: tuple[int, int] = WIDE, scheme: str = "light") -> Page:
        """A new tab of a new window."""
        options: dict[str, Any] = {
            "viewport": {"width": size[0], "height": size[1]},
            "color_scheme": scheme,
            "reduced_motion": "reduce",
            "has_touch": size == PHONE,
            "is_mobile": size == PHONE,
        }
        context = self.chromium.new_context(storage_state=self.login, **options)
        context.set_default_timeout(PATIENCE)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.said.append(words_of(message)))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.goto(self.server.url + path)
        return page

    def asks(self, question: str, preset: str = "2m") -> str:
        """By script, as it were; the path of the run's page."""
        answer = httpx.post(
            f"{self.server.url}/v1/agent",
            json={"input": question, "preset": preset},
            headers={"Authorization": f"Bearer {self.server.api_key}"},
        )
        return f"/runs/{answer.raise_for_status().json()['id']}"

    def waits_for(self, path: str) -> str:
        """Until the run has ended; its status."""
        name = path.rpartition("/")[2]
        headers = {"Authorization": f"Bearer {self.server.api_key}"}
        for _ in range(600):
            status: str = httpx.get(f"{self.server.url}/v1/agent/{name}", headers=headers).json()["status"]
            if status not in ("queued", "in_progress"):
                return status
            time.sleep(0.05)
        raise AssertionError(f"{name} did not end")


def words_of(message: ConsoleMessage) -> str:
    return f"{message.type}: {message.text} ({message.location.get('url')})"


def log_in(chromium: Browser, server: RunningServer) -> StorageState:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{server.url}/")
    page.get_by_label("Email").fill(server.email)
    page.get_by_label("Password").fill(server.password)
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Your question").wait_for()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="module")
def login(chromium: Browser, server: RunningServer) -> StorageState:
    return log_in(chromium, server)


@pytest.fixture
def person(chromium: Browser, server: RunningServer, login: StorageState) -> Iterator[Person]:
    someone = Person(chromium, server, login)
    yield someone
    for context in someone.contexts:
        context.close()
    assert someone.said == []


@pytest.fixture
def stranger(chromium: Browser, server: RunningServer) -> Iterator[Person]:
    """Not logged in."""
    someone = Person(chromium, server, None)
    yield someone
    for context in someone.contexts:
        context.close()
    assert someone.said == []
