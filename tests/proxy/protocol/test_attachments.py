"""What may be attached: sizes, types, names, addresses."""

from __future__ import annotations

import base64
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest, Problem, TooLarge
from proxy.protocol.attachments import (
    LARGEST,
    Inline,
    check_count,
    check_size,
    check_url,
    decode,
    type_of,
    upload_name,
)
from proxy.protocol.chat import parse_chat
from proxy.protocol.chat_messages import Attachment
from proxy.protocol.responses import parse_responses

MEMBERS = st.sampled_from(
    ["url", "image_url", "file", "file_id", "file_data", "file_url", "filename", "detail", "type", "text"]
)
PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n0000",
    "image/jpeg": b"\xff\xd8\xff\xe0000",
    "image/gif": b"GIF89a0000",
    "image/webp": b"RIFF0000WEBPVP8 ",
}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@given(st.binary(min_size=1, max_size=300))
def test_it_decodes_what_was_encoded(content: bytes) -> None:
    assert decode(encoded(content)) == Inline(content)
    assert decode(f"data:text/csv;base64,{encoded(content)}") == Inline(content, "text/csv")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("DATA:Image/PNG;base64,YQ==", "image/png"),
        ("data:;base64,YQ==", ""),
        ("data:a/b;charset=x;base64,YQ==", "a/b"),
        ("data:text/plain;base64, YQ\r\n==", "text/plain"),
        ("Y Q\n==", ""),
    ],
)
def test_it_reads_data_urls_as_they_are_written(data: str, said: str) -> None:
    assert decode(data) == Inline(b"a", said)


@pytest.mark.parametrize(
    "data",
    [
        "data:image/png,abc",
        "data:image/png;base64",
        "data:",
        "data:image/png;base64,",
        "",
        " ",
        "YQ",
        "YQ=",
        "Y===",
        "é===",
        "YQ==YQ==",
        "data:image/png;base64,YQ==!",
        "-_-_",
        "data:text/plain;charset=utf-8,words",
    ],
)
def test_it_refuses_what_is_not_base64(data: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(data)

    assert caught.value.param == "input"
    assert "YQ" not in caught.value.message


@pytest.mark.parametrize(
    "data",
    [f"data:{';' * 10**7},x", f"data:{'a' * 501};base64,YQ==", "YQ== " * 2 * 10**6],
    ids=["semicolons", "a long head", "blanks"],
)
def test_it_takes_apart_no_more_of_a_data_url_than_its_head(data: str) -> None:
    tracemalloc.start()
    with pytest.raises(BadRequest):
        decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(data) + 10**5


@given(st.text(max_size=80))
def test_it_answers_any_text_with_bytes_or_a_problem(text: str) -> None:
    status = 200
    try:
        decode(text)
    except Problem as problem:
        status = problem.status

    assert status in (200, 400)


def test_it_takes_twenty_mebibytes_and_no_byte_more() -> None:
    assert len(decode(encoded(bytes(LARGEST))).content) == LARGEST
    check_size(LARGEST)
    for more in (LARGEST + 1, LARGEST * 2):
        with pytest.raises(TooLarge) as caught:
            check_size(more)
        assert caught.value.param == "input"
    with pytest.raises(TooLarge):
        decode(encoded(bytes(LARGEST + 3)))


def test_it_takes_five_and_no_more() -> None:
    check_count(5)
    with pytest.raises(BadRequest):
        check_count(6)


@pytest.mark.parametrize("kind", PICTURES)
def test_it_knows_a_picture_by_its_first_bytes(kind: str) -> None:
    head = PICTURES[kind][:16]

    assert type_of(kind, "x", head) == kind
    assert type_of("", "x", head) == kind
    assert type_of("application/octet-stream", "noname", head) == kind
    for other in PICTURES:
        if other != kind:
            with pytest.raises(BadRequest):
                type_of(other, "x", head)


@pytest.mark.parametrize(
    ("said", "name", "kind"),
    [
        ("application/pdf", "image", "application/pdf"),
        ("", "a.PDF", "application/pdf"),
        ("text/plain; charset=utf-8", "a.md", "text/plain"),
        ("application/octet-stream", "a.docx", type_of("", "b.docx", b"")),
        ("text/html", "a.csv", "text/csv"),
        ("image/jpg", "a", "image/jpeg"),
        ("text/rtf", "a.rtf", "text/rtf"),
        ("", "a.jpeg", "image/jpeg"),
        ("TEXT/X-MARKDOWN", "a", "text/markdown"),
    ],
)
def test_it_goes_by_what_is_said_then_by_the_name(said: str, name: str, kind: str) -> None:
    assert type_of(said, name, PICTURES.get(kind, b"words")) == kind


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("", "noname"),
        ("application/zip", "a.zip"),
        ("video/mp4", "a.mp4"),
        ("image/svg+xml", "a.svg"),
        ("text/html", "a.html"),
        ("image/png", "a.txt"),
        ("", "a.gif"),
        ("", "."),
    ],
)
def test_it_refuses_types_that_nobody_can_read(said: str, name: str) -> None:
    with pytest.raises(BadRequest) as caught:
        type_of(said, name, b"<html>")

    assert caught.value.param == "input"


@pytest.mark.parametrize(
    ("name", "kind", "sent"),
    [
        ("image", "image/png", "image.png"),
        ("a.jpg", "image/jpeg", "a.jpg"),
        ("a.b", "text/plain", "a.b.txt"),
        ("", "text/rtf", "file.rtf"),
        ("a.md", "text/plain", "a.md"),
    ],
)
def test_it_gives_a_name_an_ending(name: str, kind: str, sent: str) -> None:
    assert upload_name(name, kind) == sent


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.png",
        "https://example.org:443/a",
        "https://EXAMPLE.org",
        "https://exämple.org/ä?q=1#f",
        "https://93.184.216.34/a",
        "https://[2606:2800:220:1:248:1893:25c8:1946]/",
    ],
)
def test_it_takes_addresses_of_the_public_internet(url: str) -> None:
    assert check_url(url).scheme == "https"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "//example.org/",
        "example.org",
        "",
        "https://",
        "https:///a",
        "https://example.org:8443/",
        "https://example.org:80/",
        "https://example.org:99999/",
        "https://user@example.org/",
        "https://:secret@example.org/",
        "https://user:secret@example.org/",
        "https://localhost/",
        "https://db.internal/",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
        "https://[fe80::1%25eth0]/",
        "https://127.0.0.1./",
        "https://①②⑦.0.0.1/",
        "https://example.org/a b",
        "https://example.org/a\nb",
        "https://example.org\\@127.0.0.1/",
        "https://example.org/" + "x" * 2048,
        "https://[::1",
        "data:text/html,x",
        "javascript:alert(1)",
    ],
)
def test_it_refuses_every_other_address(url: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_url(url)

    assert caught.value.param == "input"
    assert "secret" not in caught.value.message


@given(st.text(max_size=60))
def test_it_answers_any_address_with_one_or_a_problem(text: str) -> None:
    status = 200
    try:
        check_url(f"https://{text}")
    except Problem as problem:
        status = problem.status

    assert status in (200, 400)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["data:", "https://x/y"])
)
ANY = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4)
)


@given(
    st.sampled_from(["image_url", "file", "input_image", "input_file"]),
    st.dictionaries(MEMBERS, ANY, max_size=4),
)
def test_it_reads_any_part_as_an_attachment_or_refuses_it(kind: str, members: dict[str, object]) -> None:
    by_chat, by_responses = read_part({**members, "type": kind})

    assert not (by_chat and by_responses)
    for attachment in (*by_chat, *by_responses):
        assert attachment.name
        assert len([one for one in (attachment.data, attachment.file_id, attachment.url) if one]) == 1
        assert "\n" not in attachment.marker


def read_part(part: dict[str, object]) -> tuple[tuple[Attachment, ...], tuple[Attachment, ...]]:
    """What both doors make of it: nothing where they refuse it, with a 400."""
    said = [{"role": "user", "content": [part]}]
    by_chat: tuple[Attachment, ...] = ()
    by_responses: tuple[Attachment, ...] = ()
    with suppress(BadRequest):
        by_chat = parse_chat({"messages": said}, "gpt").attachments
    with suppress(BadRequest):
        by_responses = parse_responses({"input": said}, default_model="gpt").attachments
    return by_chat, by_responses
