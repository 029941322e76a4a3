"""Multipart forms with a file, however they are cut."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest, Problem, TooLarge
from proxy.protocol.file_form import FileForm, FileWish
from proxy.protocol.files import LARGEST_FILE

KIND = "multipart/form-data; boundary=mark"
CONTENT = b"one\r\n--mar\r\n--markx\r\n\r\n--mar\r"


def part(name: str, content: bytes | str, filename: str | None = None, kind: str = "") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"'
    head += "" if filename is None else f'; filename="{filename}"'
    head += f"\r\nContent-Type: {kind}" if kind else ""
    body = content.encode() if isinstance(content, str) else content
    return b"--mark\r\n" + head.encode() + b"\r\n\r\n" + body + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--mark--\r\n"


def read(body: bytes, size: int = 0, kind: str = KIND) -> tuple[FileWish, bytes]:
    """The form, fed `size` bytes at a time."""
    reader, found = FileForm(kind), b""
    for start in range(0, len(body), size or len(body)):
        found += reader.feed(body[start : start + (size or len(body))])
    return reader.end(), found


def problem_of(*parts: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        read(form(*parts))
    return caught.value


def test_it_reads_what_a_real_client_sends() -> None:
    request = httpx.Request(
        "POST",
        "http://x/",
        data={"purpose": "vision", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"},
        files={"file": ("фото.png", CONTENT, "image/png")},
    )

    wish, content = read(request.read(), kind=request.headers["content-type"])

    assert wish == FileWish("фото.png", "image/png", "vision", 3600)
    assert content == CONTENT


@pytest.mark.parametrize("size", range(1, 40))
def test_it_reads_the_same_however_the_form_is_cut(size: int) -> None:
    body = form(part("purpose", "assistants"), part("file", CONTENT, "a.txt", "Text/Plain; charset=utf-8"))

    assert read(body, size) == (FileWish("a.txt", "text/plain", "assistants"), CONTENT)


@given(st.binary(min_size=1, max_size=300), st.integers(1, 60))
def test_it_gives_every_byte_of_a_file_and_no_other(content: bytes, size: int) -> None:
    if b"\r\n--mark" in b"\r\n" + content:
        return

    assert read(form(part("file", content, "a")), size)[1] == content


@given(st.binary(max_size=400), st.integers(1, 60))
def test_it_answers_any_bytes_with_a_problem_or_a_file(body: bytes, size: int) -> None:
    status = 200
    try:
        read(b"--mark\r\n" + body, size)
    except Problem as problem:
        status = problem.status

    assert status in (200, 400)


def test_it_leaves_fields_alone_that_it_does_not_know() -> None:
    body = form(part("colour", "x" * 5000), part("file", "text", "a.txt"), part("more", "y"))

    assert read(body) == (FileWish("a.txt"), b"text")


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (part("purpose", "vision"),),
        (part("file", "text"),),
        (part("file", "", "a.txt"),),
        (part("file", "a", "a.txt"), part("file", "b", "b.txt")),
        (part("picture", "a", "a.txt"),),
        (part("file", "a", "a.txt"), part("picture", "a", "a.txt")),
        (part("file", "a", ""),),
        (part("file", "a", "a.txt"), part("purpose", "batch")),
        (part("file", "a", "a.txt"), part("purpose", "vision"), part("purpose", "vision")),
        (part("purpose", "v" * 201), part("file", "a", "a.txt")),
        (*[part("x", "")] * 16, part("file", "a", "a.txt")),
    ],
)
def test_it_refuses_what_is_no_upload(parts: tuple[bytes, ...]) -> None:
    problem = problem_of(*parts)

    assert (type(problem), problem.param) == (BadRequest, "file")


@pytest.mark.parametrize(
    ("anchor", "seconds"),
    [
        ("", "3600"),
        ("created_at", ""),
        ("now", "3600"),
        ("created_at", "3599"),
        ("created_at", "2592001"),
        ("created_at", "-5"),
        ("created_at", "9" * 100),
        ("created_at", "٣٦٠٠"),
    ],
)
def test_it_refuses_an_expiry_that_makes_no_sense(anchor: str, seconds: str) -> None:
    problem = problem_of(
        part("file", "a", "a.txt"),
        part("expires_after[anchor]", anchor),
        part("expires_after[seconds]", seconds),
    )

    assert (problem.status, problem.param) == (400, "expires_after")


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/mixed; boundary=x",
        "multipart/form-data; boundary=",
        f"multipart/form-data; boundary={'b' * 300}",
    ],
)
def test_it_refuses_what_is_no_form(kind: str) -> None:
    with pytest.raises(BadRequest) as caught:
        FileForm(kind)

    assert caught.value.param == "file"


@pytest.mark.parametrize("end", [10, 40, 80, 100])
def test_it_does_not_take_half_a_form_for_a_whole_one(end: int) -> None:
    with pytest.raises(BadRequest):
        read(form(part("file", "some text of a file", "a.txt"))[:end])


def test_it_refuses_a_name_that_is_not_utf8() -> None:
    body = form(part("file", "a", "NAME.txt")).replace(b"NAME", b"\xff\xfe")

    with pytest.raises(BadRequest):
        read(body)


def test_it_stops_at_the_first_byte_too_many() -> None:
    reader = FileForm(KIND)
    reader.feed(part("file", b"x" * LARGEST_FILE, "a.bin")[:-2])

    with pytest.raises(TooLarge) as caught:
        reader.feed(b"x" * 100)

    assert (caught.value.status, caught.value.param) == (413, "file")


def test_it_takes_a_file_of_the_largest_size() -> None:
    assert len(read(form(part("file", b"x" * LARGEST_FILE, "a.bin")))[1]) == LARGEST_FILE
