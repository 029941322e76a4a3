from __future__ import annotations

import pytest

from portal.api.replay import WHOLE, starting_after
from portal.api.routes import Call
from portal.api.streaming import Message, Presence
from portal.wire.errors import BadRequest


async def nothing() -> Message:
    return {"type": "http.disconnect"}


def call(method: str = "GET", **query: str) -> Call:
    return Call(method, "/v1/responses/x", {}, query, {}, b"", None, "req_1", Presence(nothing))


@pytest.mark.parametrize(
    ("query", "after"),
    [
        ({}, None),
        ({"stream": ""}, None),
        ({"stream": "false", "starting_after": "3"}, None),
        ({"starting_after": "3"}, None),
        ({"stream": "true"}, WHOLE),
        ({"stream": "1", "starting_after": ""}, WHOLE),
        ({"stream": "True", "starting_after": "0"}, 0),
        ({"stream": "true", "starting_after": "999999999"}, 999_999_999),
    ],
)
def test_it_reads_from_where_a_stream_is_wanted(query: dict[str, str], after: int | None) -> None:
    assert starting_after(call(**query)) == after


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"stream": "yes"}, "stream"),
        *(
            ({"stream": "true", "starting_after": number}, "starting_after")
            for number in ("-1", "x", "1.5", "٣", "1" * 10)
        ),
    ],
)
def test_it_names_what_it_cannot_read(query: dict[str, str], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        starting_after(call(**query))
    assert caught.value.param == param


def test_it_streams_nothing_to_who_asks_for_headers_alone() -> None:
    assert starting_after(call("HEAD", stream="true")) is None
