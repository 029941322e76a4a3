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
    ConsoleMessage,
    Page,
    StorageState,
    StorageStateCookie,
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
    # One process draws all pages of a window: starting one costs as much as loading three pages.
    "--process-per-site",
    "--renderer-process-limit=1",
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


class Window:
    """What the tabs of one size have in common. A tab that is never shown keeps the process that draws them,
    and what it has fetched: each new tab would begin with both anew."""

    def __init__(
        self, chromium: Browser, server: RunningServer, login: StorageState | None, size: tuple[int, int]
    ) -> None:
        options: dict[str, Any] = {
            "viewport": {"width": size[0], "height": size[1]},
            "color_scheme": "light",
            "reduced_motion": "reduce",
            "has_touch": size == PHONE,
            "is_mobile": size == PHONE,
        }
        self.login = login
        self.context = chromium.new_context(storage_state=login, **options)
        self.context.set_default_timeout(PATIENCE)
        self.keeper = self.context.new_page()
        self.keeper.goto(f"{server.url}/health/live")

    def renew(self) -> None:
        """As it was when it was opened."""
        for page in self.context.pages:
            if page is not self.keeper:
                page.close()
        self.context.set_offline(False)
        self.context.clear_permissions()
        self.context.clear_cookies()
        cookies: list[Any] = [*self.login["cookies"]] if self.login else []
        self.context.add_cookies(cookies)
        self.keeper.evaluate("localStorage.clear()")


@dataclass(slots=True)
class Person:
    """Somebody at a browser. What their console says is kept, and has to be nothing."""

    chromium: Browser
    server: RunningServer
    login: StorageState | None
    said: list[str] = field(default_factory=list)
    windows: dict[tuple[int, int], Window] = field(default_factory=dict)

    def opens(self, path: str = "/", size: tuple[int, int] = WIDE) -> Page:
        """A new tab, in the one window of that size."""
        if size not in self.windows:
            self.windows[size] = Window(self.chromium, self.server, self.login, size)
        page = self.windows[size].context.new_page()
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


@pytest.fixture(scope="session")
def login(server: RunningServer) -> StorageState:
    """What a browser has after `log_in`, by two requests."""
    with httpx.Client(base_url=server.url) as client:
        client.get("/account/login/")
        who = {"login": server.email, "password": server.password}
        form = {**who, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        assert client.post("/account/login/", data=form).status_code == 302
        cookies = [cookie_of(name, value) for name, value in client.cookies.items()]
    return {"cookies": cookies, "origins": []}


def cookie_of(name: str, value: str) -> StorageStateCookie:
    return {
        "name": name,
        "value": value,
        "domain": "127.0.0.1",
        "path": "/",
        "expires": -1,
        "httpOnly": name == "sessionid",
        "secure": False,
        "sameSite": "Lax",
    }


@pytest.fixture(scope="module")
def windows(chromium: Browser) -> dict[tuple[int, int], Window]:
    """Those of the person, by size: tests share them, one after the other."""
    return {}


@pytest.fixture
def person(
    chromium: Browser,
    server: RunningServer,
    login: StorageState,
    windows: dict[tuple[int, int], Window],
) -> Iterator[Person]:
    someone = Person(chromium, server, login, windows=windows)
    yield someone
    for window in windows.values():
        window.renew()
    assert someone.said == []


@pytest.fixture
def stranger(chromium: Browser, server: RunningServer) -> Iterator[Person]:
    """Not logged in."""
    someone = Person(chromium, server, None)
    yield someone
    for window in someone.windows.values():
        window.context.close()
    assert someone.said == []
