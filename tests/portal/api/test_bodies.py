from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.api.bodies import DEEPEST, check_content_type, read_json
from portal.wire.errors import BadRequest, NotJson


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.api+json",
        "application/json;x=y",
    ],
)
def test_it_takes_json_and_unsaid_bodies(kind: str) -> None:
    check_content_type(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/json",
        "json",
    ],
)
def test_it_refuses_other_bodies(kind: str) -> None:
    with pytest.raises(NotJson, match="Content-Type: application/json"):
        check_content_type(kind)


def test_it_refuses_compressed_bodies() -> None:
    check_content_type("application/json", "identity")
    with pytest.raises(NotJson, match="Compressed"):
        check_content_type("application/json", "gzip")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "The body is empty: send a JSON object."),
        (b" \n", "The body is empty: send a JSON object."),
        (b"\xff\xfe", "The body is not UTF-8 text."),
        (b"[1", "The body is not valid JSON: Expecting ',' delimiter at line 1, column 3."),
        (b'{"a": 1} x', "The body is not valid JSON: Extra data at line 1, column 10."),
        (b'{"a": "\n"}', "The body is not valid JSON: Invalid control character at at line 1, column 8."),
        (b'{"a": NaN}', "The body is not valid JSON: NaN is not a number in JSON."),
        (b'{"a": -Infinity}', "The body is not valid JSON: -Infinity is not a number in JSON."),
        (b'{"a": 1e999}', "The body holds a number that is too large."),
        (b'{"a": ' + b"9" * 5000 + b"}", "The body holds a number that is too long."),
        (b"[" * 200_000, "The body is nested too deeply."),
        (b'{"a":' * 100_000, "The body is nested too deeply."),
    ],
)
def test_it_says_why_a_body_is_no_json(raw: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_json(raw)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("opened", "closed", "levels"),
    [(b"[", b"]", 1), (b'{"a":', b"}", 1), (b'[{"a":', b"}]", 2), (b'{"b":1,"a":', b"}", 1)],
)
def test_it_reads_nothing_that_python_could_not_walk_through_later(
    opened: bytes, closed: bytes, levels: int
) -> None:
    most = DEEPEST // levels
    assert read_json(opened * most + b"1" + closed * most)
    with pytest.raises(BadRequest, match="nested too deeply"):
        read_json(opened * (most + 1) + b"1" + closed * (most + 1))


def test_it_counts_levels_and_not_brackets() -> None:
    assert read_json(b"[" + b'[],{},"[{",' * 10_000 + b"1]")


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b'{"input": 1, "input": 2}', "input"),
        (b'{"a": {"b": 1, "b": 2}}', "b"),
        (b'{"\\ud800": 1, "\\ud800": 2}', None),
        (b'{"<b>": 1, "<b>": 2}', None),
    ],
)
def test_it_names_a_key_that_is_there_twice(raw: bytes, param: str | None) -> None:
    with pytest.raises(BadRequest, match="more than once") as caught:
        read_json(raw)
    assert caught.value.param == param
    caught.value.encoded()


def test_it_reads_json_with_a_byte_order_mark() -> None:
    assert read_json(b'\xef\xbb\xbf{"input": "\xc3\xa9"}') == {"input": "é"}


@given(st.binary(max_size=200))
def test_it_never_raises_anything_else(raw: bytes) -> None:
    try:
        read_json(raw)
    except BadRequest as problem:
        problem.encoded()


def test_it_takes_no_more_apart_than_a_mebibyte_can_hold() -> None:
    assert read_json(b'{"data": "' + b"A" * 5_000_000 + b'"}') == {"data": "A" * 5_000_000}
    for many in (b"[" + b"[]," * 1_100_000 + b"1]", b"[" + b"1," * 1_100_000 + b"1]", b'{"a":' * 1_100_000):
        with pytest.raises(BadRequest, match="too many values"):
            read_json(many)
