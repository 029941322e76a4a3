"""Requests on their way to Django: how large, how slow, how many at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from portal.api.intake import LARGE_AT_ONCE, MOST_WAITING, Intake, Room, Scope
from portal.api.streaming import Message, Receive, Send
from portal.asgi import pages
from portal.wire.errors import unavailable
from tests.api_client import Client


class Site:
    """An application in Django's manner: it reads to the end, then answers when it is let."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self.working = self.most = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.may_finish = asyncio.Event()
        self.may_finish.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.read.append(body)
        self.working += 1
        self.most = max(self.most, self.working)
        await self.may_answer.wait()
        self.working -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.may_finish.wait()
        await send({"type": "http.response.body", "body": b"seen"})


class Visitor:
    def __init__(self, *chunks: bytes, path: str = "/runs", last: Message | None = None) -> None:
        self.scope = {"type": "http", "path": path, "headers": [(b"x-request-id", b"mine")]}
        self.chunks = list(chunks)
        self.last = last
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        if self.chunks:
            return {"type": "http.request", "body": self.chunks.pop(0), "more_body": bool(self.chunks)}
        if self.last is None:
            await asyncio.Event().wait()  # a client that says no more
        assert self.last is not None
        return self.last

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def visit(self, intake: Intake) -> None:
        await intake(self.scope, self.receive, self.send)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_it_hands_bodies_on_as_they_come() -> None:
    site, visitor = Site(), Visitor(b"one ", b"two")

    await visitor.visit(Intake(site))

    assert (site.read, visitor.status) == ([b"one two"], 200)


async def test_it_reads_no_more_of_a_body_than_it_takes(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    site, visitor = Site(), Visitor(*[b"x" * 6] * 5)

    await visitor.visit(Intake(site))

    assert (visitor.status, site.read, len(visitor.chunks)) == (413, [], 3)


async def test_it_takes_a_body_as_large_as_that(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    visitor = Visitor(b"x" * 6, b"x" * 4)

    await visitor.visit(Intake(Site()))

    assert visitor.status == 200


async def test_it_keeps_no_more_of_all_bodies_together_than_it_has_room_for() -> None:
    site = Site()
    intake, first, second = Intake(site), Visitor(b"x" * 6), Visitor(b"x" * 5)
    intake.room = Room(10)
    site.may_answer.clear()

    answering = asyncio.create_task(first.visit(intake))
    await settle()
    await second.visit(intake)
    assert (second.status, second.headers["retry-after"]) == (503, "2")
    site.may_answer.set()
    await answering
    assert (first.status, intake.room.used) == (200, 0)


async def test_it_waits_for_no_body_for_ever() -> None:
    site, visitor = Site(), Visitor()

    async def dribble() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    await Intake(site, seconds=0.1)(visitor.scope, dribble, visitor.send)

    assert (visitor.status, site.read, visitor.headers["connection"]) == (408, [], "close")


async def test_it_leaves_a_long_answer_its_time() -> None:
    site, visitor = Site(), Visitor(b"x")
    site.may_answer.clear()

    visit = asyncio.create_task(visitor.visit(Intake(site, seconds=0.05)))
    await asyncio.sleep(0.15)
    site.may_answer.set()
    await visit

    assert visitor.status == 200


async def test_it_lets_so_many_in_at_a_time() -> None:
    site, visitors = Site(), [Visitor(b"x") for _ in range(9)]
    intake = Intake(site, at_once=3)
    site.may_answer.clear()

    visits = [asyncio.create_task(visitor.visit(intake)) for visitor in visitors]
    await settle()
    assert site.working == 3
    site.may_answer.set()
    await asyncio.gather(*visits)

    assert site.most == 3
    assert [visitor.status for visitor in visitors] == [200] * 9


async def test_it_keeps_no_place_for_who_has_not_finished_asking() -> None:
    site = Site()
    intake = Intake(site, at_once=1)
    unfinished = Visitor(b"x", b"y")

    async def never() -> Message:
        if len(unfinished.chunks) == 1:
            await asyncio.Event().wait()
        return await Visitor.receive(unfinished)

    slow = asyncio.create_task(intake(unfinished.scope, never, unfinished.send))
    await settle()
    other = Visitor(b"x")
    await asyncio.wait_for(other.visit(intake), 1)
    slow.cancel()

    assert other.status == 200


async def test_it_keeps_no_place_for_who_reads_slowly() -> None:
    site = Site()
    intake = Intake(site, at_once=1)
    site.may_finish.clear()

    slow = asyncio.create_task(Visitor(b"x").visit(intake))
    await settle()
    other = Visitor(b"x")
    waiting = asyncio.create_task(other.visit(intake))
    await settle()

    assert other.status == 200
    site.may_finish.set()
    await asyncio.gather(slow, waiting)


@pytest.mark.parametrize("how", ["crash", "leave"])
async def test_it_gets_places_back_from_those_who_got_no_answer(how: str) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if how == "crash":
            raise RuntimeError("broken")

    intake = Intake(broken, at_once=1)
    for _ in range(3):
        visit = asyncio.wait_for(Visitor(b"x").visit(intake), 1)
        if how == "crash":
            with pytest.raises(RuntimeError):
                await visit
        else:
            await visit


async def test_it_sends_away_whom_it_could_not_serve_for_long() -> None:
    intake = Intake(Site())
    intake.waiting = MOST_WAITING
    visitor = Visitor(b"x")

    await visitor.visit(intake)

    assert (visitor.status, visitor.headers["retry-after"]) == (503, "2")


@pytest.mark.parametrize("error", [OperationalError("away"), unavailable()])
async def test_it_sends_away_whom_nobody_can_look_up(error: Exception) -> None:
    async def largest(_: Scope) -> int:
        raise error

    visitor = Visitor(b"x")

    await visitor.visit(Intake(Site(), largest=largest))

    assert (visitor.status, visitor.headers["retry-after"]) == (503, "2")


async def test_it_answers_nobody_when_the_client_left() -> None:
    visitor = Visitor(last={"type": "http.disconnect"})

    await visitor.visit(Intake(Site()))

    assert visitor.sent == []


@pytest.mark.parametrize(
    ("path", "kind"), [("/api/account", "application/json"), ("/runs", "text/plain; charset=utf-8")]
)
async def test_it_refuses_in_the_way_of_the_place(settings: Settings, path: str, kind: str) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1
    visitor = Visitor(b"xx", path=path)

    await visitor.visit(Intake(Site()))

    headers = visitor.headers
    assert headers["content-type"] == kind
    assert headers["x-request-id"] == "mine"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    if path == "/api/account":
        assert json.loads(visitor.sent[1]["body"])["error"]["code"] == "payload_too_large"


@pytest.mark.parametrize("path", ["/account/login/", "/api/account", "/admin/", "/nothing"])
def test_it_stands_before_every_page(settings: Settings, path: str) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100

    answer: Any = Client(pages()).post(path, content=b"x" * 101)

    assert answer.status_code == 413


async def test_it_takes_the_large_bodies_of_people_it_knows_a_few_at_a_time(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 4

    async def largest(_: Scope) -> int:
        return 40

    site = Site()
    site.may_answer.clear()
    intake = Intake(site, largest=largest)
    intake.room.most = 10
    visitors = [Visitor(b"x" * 30) for _ in range(LARGE_AT_ONCE + 2)]
    visits = [asyncio.create_task(visitor.visit(intake)) for visitor in visitors]
    await settle()
    assert site.working == LARGE_AT_ONCE
    site.may_answer.set()
    await asyncio.gather(*visits)

    assert {visitor.status for visitor in visitors} == {200}
    assert intake.room.used == 0
