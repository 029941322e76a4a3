from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client

from tests.environment import ROOT

SHEET = "/static/sonde.css"
WHOLE = (ROOT / "static" / "sonde.css").read_bytes()


def test_it_answers_with_the_whole_file_at_once() -> None:
    answer = Client().get(SHEET)

    assert not answer.streaming
    assert (answer.content, answer["Content-Type"]) == (WHOLE, 'text/css; charset="utf-8"')


@pytest.mark.parametrize(
    ("method", "headers", "status", "content"),
    [
        ("HEAD", {}, 200, b""),
        ("GET", {"range": "bytes=2-5"}, 206, WHOLE[2:6]),
        ("GET", {"range": "bytes=999999-"}, 416, b""),
        ("POST", {}, 405, b""),
    ],
)
def test_it_answers_every_way_of_asking(
    method: str, headers: dict[str, str], status: int, content: bytes
) -> None:
    answer = Client().generic(method, SHEET, headers=headers)

    assert (answer.status_code, answer.content) == (status, content)


def test_it_sends_nothing_that_the_browser_has() -> None:
    first = Client().get(SHEET)

    again = Client().get(SHEET, headers={"if-none-match": first["ETag"]})

    assert (again.status_code, again.content, again.get("Content-Type")) == (304, b"", None)


def selectors_of(part: str) -> Iterator[str]:
    sheet = re.sub(r"/\*.*?\*/", "", (ROOT / "static" / part).read_text(encoding="utf-8"), flags=re.DOTALL)
    for rule in re.findall(r"([^{}]+)\{", sheet):
        yield from map(str.strip, rule.split(","))


def test_it_styles_no_class_by_itself_that_a_part_before_uses_to_tell_two_of_its_own_apart() -> None:
    """As `.fresh` of a new chat once took on the look that a new key has."""
    told_apart: set[str] = set()
    taken = []
    for part in re.findall(r'url\("(.+?)"\)', WHOLE.decode()):
        selectors = list(selectors_of(part))
        own = {name for selector in selectors for name in re.findall(r"\.[\w-]+\.([\w-]+)", selector)}
        taken += [f"{part} {selector}" for selector in selectors if selector[1:] in told_apart - own]
        told_apart |= own

    assert taken == []
