"""Bodies at the lean doors: how much, how long, from whom."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from portal.api.intake import LARGEST_BODY, Room
from portal.api.lean import Doors
from tests.portal.api.some_doors import DOORS, ROUTES, client


def test_it_takes_a_body_up_to_its_limit() -> None:
    response = client.post("/v1/things", content=b"x" * LARGEST_BODY)
    assert response.json()["size"] == LARGEST_BODY


class Wire:
    """An ASGI connection by hand: what is received, what was read of it, what was sent."""

    def __init__(self, *chunks: bytes, length: str | None = None, cut: bool = False) -> None:
        more = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
        last: dict[str, Any] = {"type": "http.disconnect"} if cut else {"type": "http.request", "body": b""}
        self.messages: list[dict[str, Any]] = [*more, last]
        self.read = 0
        self.sent: list[Any] = []
        headers = [(b"content-length", length.encode())] if length is not None else []
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/things",
            "query_string": b"",
            "headers": headers,
        }

    async def receive(self) -> dict[str, Any]:
        self.read += 1
        return self.messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def call(self) -> None:
        await DOORS(self.scope, self.receive, self.send)


def error_in(wire: Wire) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(wire.sent[1]["body"])["error"]
    return error


async def test_it_refuses_a_large_body_by_its_announced_length_unread() -> None:
    for length in (str(LARGEST_BODY + 1), "9" * 30):
        wire = Wire(b"x", length=length)
        await wire.call()
        assert (wire.sent[0]["status"], wire.read) == (413, 0)
        assert json.loads(wire.sent[1]["body"])["error"]["code"] == "payload_too_large"


async def test_it_stops_reading_a_body_that_grows_too_large() -> None:
    wire = Wire(*[b"x" * LARGEST_BODY] * 9)
    await wire.call()
    assert (wire.sent[0]["status"], wire.read) == (413, 2)


async def test_it_waits_for_no_body_for_ever() -> None:
    wire = Wire(b"x")

    async def dribble() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    await Doors(ROUTES, body_seconds=0.1)(wire.scope, dribble, wire.send)

    assert wire.sent[0]["status"] == 408
    assert (b"connection", b"close") in wire.sent[0]["headers"]
    assert error_in(wire)["code"] is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("header", [(b"content-length", b"900000"), (b"transfer-encoding", b"chunked")])
async def test_it_reads_no_large_body_of_who_has_no_key(header: tuple[bytes, bytes]) -> None:
    wire = Wire(*[b"x" * 1000] * 900)
    wire.scope |= {"path": "/v1/locked", "headers": [header]}

    await wire.call()

    assert (wire.sent[0]["status"], wire.read) == (401, 0)
    assert error_in(wire)["code"] == "invalid_api_key"


async def test_it_keeps_no_more_of_small_bodies_than_it_has_room_for() -> None:
    doors, wires = Doors(ROUTES), [Wire(b"x" * 6), Wire(b"x" * 11)]
    doors.room = Room(10)

    for wire in wires:
        await doors(wire.scope, wire.receive, wire.send)

    assert [wire.sent[0]["status"] for wire in wires] == [200, 503]
    assert doors.room.used == 0


@pytest.mark.django_db(transaction=True)
async def test_it_looks_who_comes_before_it_reads_when_room_is_short() -> None:
    doors, wire = Doors(ROUTES), Wire(b"x")
    wire.scope |= {"path": "/v1/locked"}
    doors.room.take(doors.room.most // 2 + 1)

    await doors(wire.scope, wire.receive, wire.send)

    assert (wire.sent[0]["status"], wire.read) == (401, 0)


async def test_it_answers_nobody_when_the_client_left() -> None:
    wire = Wire(b"x", cut=True)
    await wire.call()
    assert wire.sent == []


async def test_it_serves_a_connection_without_an_address() -> None:
    wire = Wire(b"x")
    await wire.call()
    assert json.loads(wire.sent[1]["body"])["peer"] is None
