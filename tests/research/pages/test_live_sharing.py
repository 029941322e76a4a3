"""The socket of somebody who reads along: it is told of a run as long as that is theirs to read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async

from portal.asgi import application
from portal.live import publish
from portal.models.users import User
from portal.services.principal import principal_of
from research.models.runs import Run
from research.services.moves import Event
from research.services.sharing import share_run, take_back_run
from tests.portal.live.page import Page
from tests.portal.people import a_team, somebody
from tests.research.pages.cast import log, logged_in, running, stored

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_loop_afterwards() -> Iterator[None]:
    yield
    publish.use_loop(None)


@sync_to_async
def a_shared_run() -> tuple[User, Run, str]:
    """Its owner, the run, and the cookie of somebody who may read it."""
    team = a_team()
    owner, reader = somebody(team=team), somebody(team=team)
    run = running(owner)
    share_run(principal_of(owner), run.pk)
    return owner, stored(run), logged_in(reader).cookies["sessionid"].value


async def test_it_tells_a_reader_of_what_moves_until_it_is_taken_back() -> None:
    owner, run, cookie = await a_shared_run()
    page = Page(application, cookie)
    assert await page.connect()
    publish.use_loop(asyncio.get_running_loop())

    await sync_to_async(log)(run, Event("progress"))
    told = await page.hear()
    known = await sync_to_async(stored)(run)
    await sync_to_async(take_back_run)(principal_of(owner), run.pk)
    # By a worker that has had the run since before that.
    await sync_to_async(log)(known, Event("progress"))

    assert (told["id"], told["type"]) == (run.public_id, "run")
    assert await page.hears_nothing()
    await page.leave()
