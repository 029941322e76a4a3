"""The socket of a page, spoken to through the whole ASGI application."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings
from redis import RedisError

from portal.asgi import application
from portal.live import publish
from portal.live.consumer import PageSocket
from portal.models.users import User
from tests.portal.live.page import Page
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db(transaction=True)


@sync_to_async
def log_in() -> tuple[User, str]:
    """A new user and the cookie of their session."""
    user = somebody()
    client = Client()
    client.force_login(user)
    return user, client.cookies["sessionid"].value


async def open_socket(cookie: str) -> Page:
    page = Page(application, cookie)
    assert await page.connect()
    return page


@pytest.fixture
def _quick_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageSocket, "pulse", 0.05)


async def test_it_forwards_the_events_of_its_user() -> None:
    user, cookie = await log_in()
    page = await open_socket(cookie)
    publish.use_loop(asyncio.get_running_loop())

    publish.publish(user.pk, {"type": "run", "id": "resp_1", "seq": 3, "state": "completed"})

    assert await page.hear() == {
        "type": "run",
        "id": "resp_1",
        "seq": 3,
        "state": "completed",
    }
    publish.use_loop(None)
    await page.leave()


async def test_it_tells_nobody_of_the_events_of_others() -> None:
    _, cookie = await log_in()
    stranger, _ = await log_in()
    page = await open_socket(cookie)
    publish.use_loop(asyncio.get_running_loop())

    publish.publish(stranger.pk, {"type": "run", "id": "resp_1", "seq": 3, "state": "completed"})

    assert await page.hears_nothing()
    publish.use_loop(None)
    await page.leave()


@pytest.mark.parametrize("cookie", ["", "not-a-session"])
async def test_it_tells_who_is_not_logged_in_by_its_close_code(cookie: str) -> None:
    page = await open_socket(cookie)

    assert await page.hear_the_close() == 4401


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost:9",
        "http://localhost",
        "http://127.0.0.1:8001",
        "http://localhost:8000.evil.example",
        "http://localhost:8000@evil.example",
        "file://localhost:8000",
        "null",
        "",
    ],
)
async def test_it_lets_no_page_of_another_origin_in(origin: str) -> None:
    _, cookie = await log_in()

    assert (await Page(application, cookie, origin=origin).connect()) is False


async def test_it_lets_pages_of_the_public_address_in_whatever_the_proxy_calls_us(settings: Settings) -> None:
    settings.PUBLIC_URL = "https://sonde.example"
    _, cookie = await log_in()
    page = Page(application, cookie, origin="https://sonde.example")

    assert await page.connect()
    await page.leave()


@pytest.mark.parametrize(("scheme", "enters"), [("https", True), ("http", False)])
async def test_it_lets_no_page_in_that_came_in_the_clear_where_there_is_https(
    settings: Settings, scheme: str, enters: bool
) -> None:
    settings.PUBLIC_URL, settings.SECURE = "https://sonde.example", True
    _, cookie = await log_in()

    assert await Page(application, cookie, origin=f"{scheme}://localhost:8000").connect() is enters


async def test_it_lets_no_page_in_that_calls_us_by_a_wrong_name() -> None:
    _, cookie = await log_in()
    page = Page(application, cookie, origin="http://evil.example", host="evil.example")

    assert (await page.connect()) is False


@pytest.mark.parametrize("fault", [RedisError, OperationalError, ConnectionResetError])
async def test_it_asks_the_page_to_come_again_when_something_is_away(
    monkeypatch: pytest.MonkeyPatch,
    fault: type[Exception],
    caplog: pytest.LogCaptureFixture,
    settings: Settings,
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:6379/0"  # nobody asks it
    _, cookie = await log_in()

    async def away(group: str, channel: str) -> None:
        raise fault

    monkeypatch.setattr(get_channel_layer(), "group_add", away)
    page = Page(application, cookie)

    assert (await page.connect()) is False
    assert "Traceback" not in caplog.text


class GonePage:
    """A page that left without a word: what is sent to it with `lost` in it breaks."""

    def __init__(self, cookie: str, lost: str) -> None:
        self.scope = Page(application, cookie).scope
        self.lost = lost
        self.says: asyncio.Queue[Any] = asyncio.Queue()

    async def send(self, message: Any) -> None:
        if self.lost in message.get("text", ""):
            raise ConnectionResetError

    async def open(self) -> asyncio.Task[None]:
        await self.says.put({"type": "websocket.connect"})
        socket = asyncio.create_task(application(self.scope, self.says.get, self.send))
        await asyncio.sleep(0.3)
        return socket


def pulses() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if "PageSocket._pulse" in repr(task.get_coro())]


async def test_it_takes_a_page_that_has_gone_for_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageSocket, "pulse", 0.4)
    _, cookie = await log_in()
    page = GonePage(cookie, "ping")
    socket = await page.open()
    (pulse,) = pulses()

    await asyncio.wait([pulse], timeout=5)
    await page.says.put({"type": "websocket.disconnect", "code": 1006})
    await asyncio.wait_for(socket, 5)

    assert pulse.exception() is None


@pytest.mark.usefixtures("_quick_pulse")
async def test_it_leaves_no_pulse_behind() -> None:
    user, cookie = await log_in()
    socket = await GonePage(cookie, "resp_1").open()

    publish.use_loop(asyncio.get_running_loop())
    publish.publish(user.pk, {"type": "run", "id": "resp_1", "seq": 3, "state": "completed"})
    await asyncio.wait_for(socket, 5)
    publish.use_loop(None)
    await asyncio.sleep(0.3)

    assert pulses() == []


async def test_it_opens_at_one_path_only() -> None:
    _, cookie = await log_in()

    assert (await Page(application, cookie, path="/ws/other").connect()) is False


async def test_it_answers_a_ping() -> None:
    _, cookie = await log_in()
    page = await open_socket(cookie)

    await page.say('{"type": "ping"}')

    assert await page.hear() == {"type": "pong"}
    await page.leave()


@pytest.mark.parametrize(
    "noise", ["", "not json", "[]", "[" * 1000, "7", '{"type": "live.event"}', '{"type": ["ping"]}']
)
async def test_it_ignores_whatever_else_a_client_says(noise: str) -> None:
    _, cookie = await log_in()
    page = await open_socket(cookie)

    await page.say(noise)

    assert await page.hears_nothing()
    await page.leave()


@pytest.mark.parametrize("big", ["x" * 2000, b"x"])
async def test_it_hangs_up_on_messages_that_no_page_sends(big: str | bytes) -> None:
    _, cookie = await log_in()
    page = await open_socket(cookie)

    await page.say(big)

    assert await page.hear_the_close() == 1009


@pytest.mark.usefixtures("_quick_pulse")
async def test_it_pings_its_page() -> None:
    _, cookie = await log_in()
    page = await open_socket(cookie)

    assert await page.hear() == {"type": "ping"}
    await page.leave()


@pytest.mark.usefixtures("_quick_pulse")
async def test_it_ends_when_its_user_has_logged_out() -> None:
    _, cookie = await log_in()
    page = await open_socket(cookie)

    await sync_to_async(SessionStore(cookie).delete)()

    assert await page.hear_the_close() == 4401


@pytest.mark.usefixtures("_quick_pulse")
async def test_it_ends_when_its_user_is_disabled() -> None:
    user, cookie = await log_in()
    page = await open_socket(cookie)

    await User.objects.filter(pk=user.pk).aupdate(is_active=False)

    assert await page.hear_the_close() == 4401


@pytest.mark.usefixtures("_quick_pulse")
async def test_it_ends_when_its_user_has_a_new_password() -> None:
    user, cookie = await log_in()
    page = await open_socket(cookie)

    await User.objects.filter(pk=user.pk).aupdate(password="another hash")

    assert await page.hear_the_close() == 4401
