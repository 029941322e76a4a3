from __future__ import annotations

from collections.abc import Callable

import pytest

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields, fields_of, is_plain_name

Read = Callable[[Fields], object]


@pytest.mark.parametrize("body", [None, 1, "text", [], True, 1.5])
def test_it_wants_an_object(body: object) -> None:
    with pytest.raises(BadRequest, match="must be a JSON object"):
        fields_of(body)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda of: of.text("x", longest=5), None),
        (lambda of: of.word("x", longest=5), None),
        (lambda of: of.choice("x", ("a",)), None),
        (lambda of: of.flag("x"), None),
        (lambda of: of.items("x", most=5), []),
        (lambda of: of.inner("x").values, {}),
    ],
)
@pytest.mark.parametrize("body", [{}, {"x": None}])
def test_it_reads_null_as_missing(read: Read, expected: object, body: dict[str, object]) -> None:
    assert read(Fields(body)) == expected


@pytest.mark.parametrize(
    ("value", "read", "message"),
    [
        (1, lambda of: of.text("x", longest=5), "x must be a string"),
        ("abcdef", lambda of: of.text("x", longest=5), "x must be at most 5 characters"),
        ("a\0b", lambda of: of.text("x", longest=5), "x must not contain NUL characters"),
        (
            "a\ud800",
            lambda of: of.text("x", longest=5),
            "x is not valid Unicode: it contains a lone surrogate",
        ),
        (" ", lambda of: of.word("x", longest=5), "x must not be empty"),
        ("c", lambda of: of.choice("x", ("a", "b")), "x must be one of: a, b"),
        (["a"], lambda of: of.choice("x", ("a", "b")), "x must be one of: a, b"),
        ("true", lambda of: of.flag("x"), "x must be true or false"),
        (0, lambda of: of.flag("x"), "x must be true or false"),
        ({}, lambda of: of.items("x", most=2), "x must be a list"),
        ([1, 2, 3], lambda of: of.items("x", most=2), "x must have at most 2 entries"),
        ("text", lambda of: of.inner("x"), "x must be an object"),
        ({"y": 1}, lambda of: of.inner("x").text("y", longest=5), "x.y must be a string"),
    ],
)
def test_it_names_the_field_that_is_wrong(value: object, read: Read, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(Fields({"x": value}))
    assert caught.value.message == message
    assert caught.value.param == message.split(maxsplit=1)[0]


def test_it_reads_what_is_right() -> None:
    of = Fields({"a": " words ", "b": True, "c": [1], "d": {"e": "in"}})
    assert (of.text("a", longest=7), of.word("a", longest=7)) == (" words ", "words")
    assert (of.flag("b"), of.items("c", most=1), of.inner("d").choice("e", ("in",))) == (True, [1], "in")


@pytest.mark.parametrize(
    ("text", "plain"),
    [("input", True), ("a.b-c_1", True), ("", False), ("a b", False), ("é", False), ("a" * 65, False)],
)
def test_it_repeats_only_plain_names(text: str, plain: bool) -> None:
    assert is_plain_name(text) is plain


@pytest.mark.parametrize(("value", "read"), [(1, 1), (100, 100), (20.0, 20), (None, None)])
def test_it_reads_whole_numbers(value: object, read: int | None) -> None:
    assert Fields({"x": value}).whole("x", least=1, most=100) == read


@pytest.mark.parametrize("value", [0, 101, 1.5, True, "5", [5], float("nan"), float("inf")])
def test_it_refuses_what_is_no_whole_number_in_range(value: object) -> None:
    with pytest.raises(BadRequest, match="x must be a whole number from 1 to 100"):
        Fields({"x": value}).whole("x", least=1, most=100)
