"""Answers that take their time, as ASGI: silence, errors, clients that leave, servers that stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable

import pytest

from portal.api import streaming
from portal.api.lean import Doors
from portal.api.replies import Answer, Later, answer_json
from portal.api.routes import Call, OpenRoute
from portal.api.streaming import Stream
from portal.wire.errors import Conflict, Problem
from tests.visit import Visit

Pieces = Callable[[], AsyncGenerator[bytes, None]]


class Route:
    """An open door with an answer that takes its time."""

    method, path = "GET", "/v1/slow"

    def __init__(self, reply: Later | Stream) -> None:
        self._reply = reply

    async def look_first(self, call: Call) -> None:
        """Everybody may."""

    async def reply(self, call: Call) -> Later | Stream:
        return self._reply


def visit(reply: Later | Stream, *, stuck: bool = False) -> Visit:
    doors = Doors((Route(reply),))  # type: ignore[arg-type]  # looks like a route
    return Visit(doors, "GET", "/v1/slow", stuck=stuck)


def last_words(problem: Problem) -> bytes:
    return b"data: " + problem.encoded() + b"\n\n"


def stream(pieces: Pieces) -> Stream:
    return Stream(pieces, last_words, {"x-kind": "slow"})


class Answering:
    """An answer that waits after `said`, and remembers how it ended."""

    def __init__(self, *said: bytes) -> None:
        self.said = said
        self.ended_by: type[BaseException] | None = None
        self.cleaned_up = False

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            for piece in self.said:
                yield piece
            await asyncio.sleep(30)
        except BaseException as error:
            self.ended_by = type(error)
            raise
        finally:
            await asyncio.sleep(0.01)  # as a settlement does
            self.cleaned_up = True

    async def whole(self) -> Answer:
        async for _ in self.pieces():
            pass
        return answer_json({})


async def test_it_writes_every_piece_at_once_and_by_itself() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        yield b"data: 2\n\ndata: 3\n\n"

    here = visit(stream(pieces))
    await here.end()

    assert here.pieces == [b"data: 1\n\n", b"data: 2\n\ndata: 3\n\n"]
    assert here.is_whole
    assert here.headers["content-type"] == "text/event-stream"
    assert here.headers["cache-control"] == "no-cache"
    assert here.headers["x-accel-buffering"] == "no"
    assert here.headers["x-kind"] == "slow"
    assert here.headers["x-request-id"]
    assert "content-length" not in here.headers


async def test_it_is_an_empty_stream_that_has_nothing_to_say() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        return
        yield

    made = visit(stream(pieces))
    await made.end()

    assert (made.status, made.body, made.is_whole) == (200, b"", True)


async def test_it_answers_with_an_error_of_its_own_while_nothing_was_said() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        nothing: tuple[bytes, ...] = ()
        for piece in nothing:
            yield piece
        raise Conflict("No.", headers={"x-should-retry": "false"})

    here = visit(stream(pieces))
    await here.end()

    assert here.status == 422
    assert json.loads(here.body)["error"]["message"] == "No."
    assert (here.headers["x-should-retry"], here.headers["x-kind"]) == ("false", "slow")


async def test_it_ends_a_begun_stream_with_its_last_words() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise RuntimeError("secret")

    here = visit(stream(pieces))
    await here.end()

    assert here.status == 200
    assert here.pieces[1].startswith(b'data: {"error": ')
    assert b"secret" not in here.body
    assert here.is_whole


@pytest.mark.parametrize("said", [(), (b"data: 1\n\n",)])
async def test_it_cancels_a_stream_as_soon_as_its_client_leaves(said: tuple[bytes, ...]) -> None:
    answering = Answering(*said)
    here = visit(stream(answering.pieces))
    await here.until(b"".join(said))
    await asyncio.sleep(0.05)

    here.leave()
    await asyncio.wait_for(here.end(), 1)

    assert answering.ended_by is asyncio.CancelledError
    assert answering.cleaned_up
    assert here.pieces == list(said)


async def test_it_cancels_a_plain_wait_as_soon_as_its_client_leaves() -> None:
    answering = Answering()
    here = visit(Later(answering.whole))
    await asyncio.sleep(0.05)

    here.leave()
    await asyncio.wait_for(here.end(), 1)

    assert answering.ended_by is asyncio.CancelledError
    assert answering.cleaned_up
    assert here.messages == []


async def test_it_cleans_up_after_a_client_that_left_before_anything_was_made() -> None:
    answering = Answering()
    here = visit(stream(answering.pieces))
    here.leave()

    await asyncio.wait_for(here.end(), 1)

    assert answering.cleaned_up


async def test_it_breathes_in_silence_and_not_while_it_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "KEEPALIVE_SECONDS", 0.1)
    here = visit(stream(Answering().pieces))

    await here.until(b": keepalive\n\n: keepalive\n\n")
    here.leave()
    await here.end()

    assert here.headers["content-type"] == "text/event-stream"


async def test_it_gives_up_a_reader_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "KEEPALIVE_SECONDS", 0.05)
    monkeypatch.setattr(streaming, "STALLED_SECONDS", 0.1)
    answering = Answering(b"data: 1\n\n")
    here = visit(stream(answering.pieces), stuck=True)

    await asyncio.wait_for(here.end(), 2)

    assert answering.cleaned_up


async def test_it_says_so_when_the_server_stops_in_the_middle() -> None:
    answering = Answering(b"data: 1\n\n")
    here = visit(stream(answering.pieces))
    await here.until(b"1")

    here.task.cancel()
    await here.end()

    assert not here.task.cancelled(), "which would be a traceback in the server's log"
    assert answering.cleaned_up
    assert b"restarting" in here.pieces[-1]
    assert here.is_whole


async def test_it_answers_503_when_the_server_stops_before_the_answer() -> None:
    here = visit(Later(Answering().whole))
    await asyncio.sleep(0.05)

    here.task.cancel()
    await here.end()

    assert not here.task.cancelled(), "which would be a traceback in the server's log"
    assert here.status == 503
    assert here.headers["retry-after"] == "2"


async def test_it_takes_the_rest_of_a_path_as_one_part() -> None:
    async def tell(call: Call) -> Answer:
        return answer_json(dict(call.parts))

    doors = Doors((OpenRoute("GET", "/v1/models/{id:path}", tell),))
    for path, found in (("/v1/models/a", b'{"id": "a"}'), ("/v1/models/a/b", b'{"id": "a/b"}')):
        here = Visit(doors, "GET", path)
        await here.end()
        assert here.body == found
    nobody = Visit(doors, "GET", "/v1/models")
    await nobody.end()
    assert nobody.status == 404
