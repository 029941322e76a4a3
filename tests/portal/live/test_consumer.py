"""The socket of a page, spoken to through the whole ASGI application."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

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


async def test_it_lets_no_page_of_another_site_in() -> None:
    _, cookie = await log_in()

    assert (await Page(application, cookie, origin="https://evil.example").connect()) is False


async def test_it_opens_at_one_path_only() -> None:
    _, cookie = await log_in()

    assert (await Page(application, cookie, path="/ws/other").connect()) is False


async def test_it_answers_a_ping() -> None:
    _, cookie = await log_in()
    page = await open_socket(cookie)

    await page.say('{"type": "ping"}')

    assert await page.hear() == {"type": "pong"}
    await page.leave()


@pytest.mark.parametrize("noise", ["", "not json", "[]", "7", '{"type": "live.event"}', '{"type": ["ping"]}'])
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
