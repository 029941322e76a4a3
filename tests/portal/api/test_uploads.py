"""Doors that read their body as it comes, bodies that are large, and files that are sent as they are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

import pytest

from portal.api.intake import LARGEST_BODY
from portal.api.lean import LARGE_AT_ONCE, Doors
from portal.api.replies import Answer, Download, answer_json
from portal.api.routes import Call, KeyRoute, UploadRoute
from portal.api.streaming import Message
from portal.models.keys import Scope
from portal.services import keys, users
from portal.services.principal import Principal
from portal.wire.errors import NotFound, Unavailable
from tests.api_client import Client
from tests.visit import Visit

pytestmark = pytest.mark.django_db(transaction=True)
FILES = Scope.FILES.value


@pytest.fixture
def key() -> str:
    user = users.create_user("ann@example.org")
    return keys.create_key(user, name="test", scopes=[FILES], requests_per_minute=50)[1]


async def count(call: Call, who: Principal, body: AsyncIterator[bytes]) -> Answer:
    return answer_json([len(piece) async for piece in body])


async def look_away(call: Call, who: Principal, body: AsyncIterator[bytes]) -> Answer:
    raise NotFound("no")


async def lose(call: Call, who: Principal, body: AsyncIterator[bytes]) -> Answer:
    raise Unavailable("away", headers={"Retry-After": "2"})


uploads = Doors(
    (
        UploadRoute("POST", "/up", FILES, count, 10),
        UploadRoute("POST", "/up/nothing", FILES, look_away, 10),
        UploadRoute("POST", "/up/chat", Scope.CHAT.value, count, 10),
        UploadRoute("POST", "/up/away", FILES, lose, 10),
    )
)


def test_it_hands_a_body_on_as_it_comes(key: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"three", b"o"):
            yield piece

    answer = Client(uploads, key).post("/up", content=pieces())

    assert [size for size in answer.json() if size] == [3, 5, 1]
    assert answer.headers["x-ratelimit-limit-requests"] == "50"
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/up", b"x" * 10, 200),
        ("/up", b"x" * 11, 413),
        ("/up/nothing", b"x" * 9, 404),
        ("/up/chat", b"", 403),
        ("/up/away", b"", 503),
    ],
)
def test_it_answers_for_the_door(key: str, path: str, body: bytes, status: int) -> None:
    answer = Client(uploads, key).post(path, content=body)

    assert answer.status_code == status
    assert "x-ratelimit-limit-requests" in answer.headers


def test_it_lets_nobody_in_without_a_key() -> None:
    assert Client(uploads).post("/up", content=b"x").status_code == 401
    assert Client(uploads).get("/up").status_code == 405


def size_of(call: Call, who: Principal) -> Answer:
    return answer_json(len(call.body))


large = Doors(
    (KeyRoute("POST", "/large", FILES, size_of, 3 * LARGEST_BODY), KeyRoute("POST", "/small", FILES, size_of))
)


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/large", 3 * LARGEST_BODY, 200),
        ("/large", 3 * LARGEST_BODY + 1, 413),
        ("/small", LARGEST_BODY, 200),
        ("/small", LARGEST_BODY + 1, 413),
    ],
)
def test_it_takes_as_much_as_a_door_says(key: str, path: str, size: int, status: int) -> None:
    assert Client(large, key).post(path, content=bytes(size)).status_code == status


async def test_it_reads_a_few_large_bodies_at_a_time(key: str) -> None:
    """The others are not read until one of them is through; small ones do not wait."""
    doors = Doors((KeyRoute("POST", "/large", FILES, size_of, 3 * LARGEST_BODY),))
    asked = 0
    are_in, may_go = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        if asked == LARGE_AT_ONCE:
            are_in.set()
        await may_go.wait()
        return {"type": "http.request", "body": b"x", "more_body": False}

    async def send(message: Message) -> None: ...

    headers = [
        (b"authorization", f"Bearer {key}".encode()),
        (b"content-length", str(2 * LARGEST_BODY).encode()),
    ]
    scope = {"type": "http", "method": "POST", "path": "/large", "query_string": b"", "headers": headers}
    visits = [asyncio.ensure_future(doors(scope, receive, send)) for _ in range(LARGE_AT_ONCE + 3)]
    await are_in.wait()
    small = Visit(doors, "POST", "/large", {}, key=key)
    await small.end()

    assert (asked, small.status) == (LARGE_AT_ONCE, 200)
    may_go.set()
    await asyncio.gather(*visits)
    assert asked == LARGE_AT_ONCE + 3


async def whole() -> AsyncGenerator[bytes, None]:
    yield b"one"
    yield b"two"


async def broken() -> AsyncGenerator[bytes, None]:
    yield b"one"
    raise Unavailable("the database is away")


async def missing() -> AsyncGenerator[bytes, None]:
    for piece in (b"never", b"sent"):
        if piece:
            raise NotFound("gone")
        yield piece


async def waiting() -> AsyncGenerator[bytes, None]:
    yield b"one"
    await asyncio.Event().wait()


def sending(pieces: object) -> Doors:
    def door(call: Call, who: Principal) -> Download:
        return Download(pieces, 6, {"Content-Type": "text/plain"})  # type: ignore[arg-type]  # one of these

    return Doors((KeyRoute("GET", "/down", FILES, door),))


def test_it_sends_a_file_as_it_is_read(key: str) -> None:
    answer = Client(sending(whole), key).get("/down")

    assert (answer.content, answer.headers["content-length"]) == (b"onetwo", "6")
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("text/plain", "no-store")


def test_it_reads_nothing_for_the_head_alone(key: str) -> None:
    answer = Client(sending(missing), key).request("HEAD", "/down")

    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "6")


def test_it_answers_with_an_error_while_nothing_was_sent(key: str) -> None:
    assert Client(sending(missing), key).get("/down").status_code == 404


async def test_it_never_ends_a_file_that_broke_off(key: str) -> None:
    visit = Visit(sending(broken), "GET", "/down", key=key)

    await visit.end()

    assert (visit.status, visit.body, visit.is_whole) == (200, b"one", False)


async def test_it_stops_reading_for_a_client_who_left(key: str) -> None:
    visit = Visit(sending(waiting), "GET", "/down", key=key)
    await visit.until(b"one")

    visit.leave()

    with suppress(asyncio.CancelledError):
        await visit.end()
    assert not visit.is_whole
