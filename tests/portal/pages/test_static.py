from __future__ import annotations

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
