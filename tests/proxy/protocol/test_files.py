"""Files in the OpenAI API's words: names, lists, objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import openai.types
import pytest

from portal.wire.errors import BadRequest
from proxy.protocol.files import (
    FileView,
    Listing,
    build_file,
    build_list,
    check_filename,
    file_id,
    parse_file_id,
    parse_listing,
)

ID = UUID("0123456789abcdef0123456789abcdef")
MOMENT = datetime(2026, 11, 30, tzinfo=UTC)
FILE = FileView(ID, "a.txt", "user_data", 5, MOMENT)


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "report.pdf",
        "تقرير.pdf",
        "דוח סופי.pdf",
        "a\u200f.pdf",
        " .txt",
        "...",
        "x" * 255,
        "é" * 127,
        'a;b"c.txt',
    ],
)
def test_it_takes_names_that_people_give(name: str) -> None:
    assert check_filename(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../../etc/passwd",
        "a/b",
        "..\\a",
        "a\0b",
        "a\nb",
        "\x7f",
        "\x85",
        "photo\u202egpj.exe",
        "x" * 256,
        "x" * 300,
        "é" * 128,
        "\ud800",
    ],
)
def test_it_refuses_names_that_lead_elsewhere_or_hide_something(name: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_filename(name)

    assert caught.value.param == "file"


def test_it_reads_its_own_ids_and_no_others() -> None:
    assert parse_file_id(file_id(ID)) == ID
    assert parse_file_id(file_id(ID).upper()) is None
    assert parse_file_id(f"{file_id(ID)}0") is None
    assert parse_file_id("") is None


def test_it_reads_which_page_is_wanted() -> None:
    query = {"limit": "3", "order": "asc", "after": file_id(ID), "purpose": "vision"}

    assert parse_listing(query) == Listing(3, "asc", ID, "vision")
    assert parse_listing({}) == Listing(10_000, "desc", None, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "10001"),
        ("limit", "x"),
        ("limit", "-1"),
        ("limit", "1" * 50),
        ("order", "up"),
        ("purpose", "batch"),
        ("after", "file-1"),
        ("after", "x"),
    ],
)
def test_it_names_the_parameter_that_makes_no_sense(name: str, value: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_listing({name: value})

    assert caught.value.param == name


@pytest.mark.parametrize("file", [FILE, FileView(ID, "é.png", "vision", 1, MOMENT, MOMENT)])
def test_it_shows_a_file_as_the_sdk_types_it(file: FileView) -> None:
    body = build_file(file)

    openai.types.FileObject.model_validate(body, strict=True)
    assert body["id"] == "file-0123456789abcdef0123456789abcdef"
    assert ("expires_at" in body) is (file.expires_at is not None)


@pytest.mark.parametrize(("files", "ends"), [([], (None, None)), ([FILE], (file_id(ID), file_id(ID)))])
def test_it_shows_a_list_with_its_ends(files: list[FileView], ends: tuple[Any, Any]) -> None:
    body = build_list(files, has_more=False)

    assert (body["first_id"], body["last_id"], body["has_more"]) == (*ends, False)
