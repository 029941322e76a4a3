"""Forms, receipts and readings of the upstream's upload flow (perplexity-web §14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from portal.wire.sse import SseDecoder
from proxy.protocol.web_uploads import (
    Form,
    Reading,
    Refused,
    create_body,
    needs_reading,
    process_body,
    read_form,
    read_stored,
)

LIVE = "https://www.perplexity.ai"
S3 = "https://ppl-ai-file-upload.s3.amazonaws.com/"
GIVEN: dict[str, Any] = {
    "s3_bucket_url": S3,
    "s3_object_url": f"{S3}web/direct-files/a.png",
    "fields": {"acl": "x", "Content-Type": "image/png", "key": "k", "timestamp": 5},
    "file_uuid": "11111111-1111-4111-8111-111111111111",
    "rate_limited": False,
    "error": None,
}
FORM = Form(S3, {}, f"{S3}a.pdf", "f1")
PICTURE = Form(
    "https://api.cloudinary.com/v1_1/pplx/image/upload", {}, "https://res/image/upload/a.png", "f1"
)


def form(base_url: str = LIVE, **changed: Any) -> Form:
    return read_form(json.dumps({**GIVEN, **changed}).encode(), base_url)


def test_it_announces_a_file_in_the_upstreams_words() -> None:
    assert json.loads(create_body("a.png", "image/png", 1234)) == {
        "content_type": "image/png",
        "file_size": 1234,
        "filename": "a.png",
        "force_image": False,
        "source": "default",
    }
    assert json.loads(process_body("f1")) == {"file_uuids": ["f1"]}


def test_it_keeps_the_fields_of_a_form_in_their_order() -> None:
    read = form()

    assert list(read.fields.items()) == [
        ("acl", "x"),
        ("Content-Type", "image/png"),
        ("key", "k"),
        ("timestamp", "5"),
    ]
    assert (read.url, read.object_url, read.file_id) == (
        S3,
        f"{S3}web/direct-files/a.png",
        GIVEN["file_uuid"],
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"error": "boom"},
        {"error": {"code": 1}},
        {"rate_limited": True},
        {"fields": None},
        {"fields": {}},
        {"fields": {"key": None}},
        {"s3_bucket_url": ""},
        {"s3_object_url": None},
        {"file_uuid": None},
        {"s3_bucket_url": "http://ppl.s3.amazonaws.com/"},
        {"s3_bucket_url": "https://evil.example.org/"},
        {"s3_bucket_url": "https://amazonaws.com.evil.org/"},
        {"s3_bucket_url": "https://evilamazonaws.com/"},
        {"s3_bucket_url": "https://user:pass@ppl.s3.amazonaws.com/"},
        {"s3_bucket_url": "https://x.api.cloudinary.com/"},
        {"s3_bucket_url": "https://[broken"},
        {"s3_bucket_url": "http://127.0.0.1:5/"},
        {"s3_bucket_url": "https://localhost/"},
        {"s3_bucket_url": "http://169.254.169.254/"},
    ],
)
def test_it_sends_nothing_to_a_storage_that_is_none(changed: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        form(**changed)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"<html>", b"{}", b"\xff"])
def test_it_reads_no_form_out_of_anything_else(body: bytes) -> None:
    with pytest.raises(Refused):
        read_form(body, LIVE)


def test_it_stores_on_this_machine_only_what_an_upstream_on_this_machine_takes() -> None:
    here = {"s3_bucket_url": "http://127.0.0.1:5000/_storage/s3/"}

    assert form("http://127.0.0.1:5000", **here).url == here["s3_bucket_url"]
    for upstream in (LIVE, "http://10.0.0.5:5000"):
        with pytest.raises(Refused):
            form(upstream, **here)


@pytest.mark.parametrize("status", [200, 201, 204])
def test_it_knows_where_a_document_is_from_its_form(status: int) -> None:
    assert read_stored(FORM, status, b"") == FORM.object_url


@pytest.mark.parametrize("status", [302, 400, 403, 500])
def test_it_believes_no_storage_that_refused(status: int) -> None:
    with pytest.raises(Refused):
        read_stored(FORM, status, b"")


def test_it_takes_the_signature_out_of_a_pictures_address() -> None:
    url = "https://res.cloudinary.com/pplx/image/private/s--aB3_x--/v1700000000/user_uploads/1/a.png"
    body = json.dumps({"secure_url": url, "moderation": [{"status": "approved"}]}).encode()

    assert (
        read_stored(PICTURE, 200, body)
        == "https://res.cloudinary.com/pplx/image/private/user_uploads/1/a.png"
    )


@pytest.mark.parametrize(
    "body", [{}, {"secure_url": 5}, {"secure_url": "https://x", "moderation": [{"status": "rejected"}]}]
)
def test_it_refuses_a_picture_that_its_storage_refuses(body: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read_stored(PICTURE, 200, json.dumps(body).encode())


def test_it_has_documents_read_and_pictures_not() -> None:
    assert needs_reading("application/pdf")
    assert not needs_reading("image/png")


def event(**fields: Any) -> bytes:
    told = json.dumps({"file_uuid": "f1", "success": True, **fields})
    return f"event: message\r\ndata: {told}\r\n\r\n".encode()


def outcome(raw: bytes, size: int = 10_000) -> str:
    decoder, reading = SseDecoder(), Reading("f1", "stored")
    try:
        for start in range(0, len(raw), size):
            for record in decoder.feed(raw[start : start + size]):
                reading.take(record)
        return reading.end()
    except Refused:
        return "refused"


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (event(), "stored"),
        (event(s3_url="https://read"), "https://read"),
        (event(file_uuid="other", success=False) + event(), "stored"),
        (event(success=False), "refused"),
        (event(success="true"), "refused"),
        (event(token_limit_exceeded=True), "refused"),
        (event(file_uuid="other"), "refused"),
        (b"data: {broken\r\n\r\n" + event(), "stored"),
        (b"data: [1]\r\n\r\n", "refused"),
        (b"", "refused"),
    ],
)
def test_it_believes_a_reading_however_it_is_cut(raw: bytes, seen: str) -> None:
    assert {outcome(raw, size) for size in (*range(1, 30), 10_000)} == {seen}
