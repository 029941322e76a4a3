"""Files and attachments by OpenAI's SDK, against a portal that really runs."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from tests.running_server import RunningServer

pytestmark = pytest.mark.slow
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
HEAD = b'--mark\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
MIB = 1024 * 1024


def data_url(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def test_it_keeps_files_as_the_sdk_has_them(by_openai: openai.OpenAI) -> None:
    content = bytes(range(256)) * 9_000
    made = by_openai.files.create(
        file=("notes.txt", content),
        purpose="user_data",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )

    assert (made.bytes, made.filename, made.status) == (len(content), "notes.txt", "processed")
    assert made.expires_at == made.created_at + 3600
    assert by_openai.files.retrieve(made.id) == made
    assert by_openai.files.wait_for_processing(made.id) == made
    assert by_openai.files.content(made.id).read() == content
    assert made.id in [file.id for file in by_openai.files.list(limit=1)]
    assert by_openai.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError) as caught:
        by_openai.files.content(made.id)
    assert caught.value.param == "file_id"
    assert caught.value.request_id


def test_it_shows_a_picture_to_the_model(server: RunningServer, by_openai: openai.OpenAI) -> None:
    answer = by_openai.chat.completions.create(
        model="gpt",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is in this picture?"},
                    {"type": "image_url", "image_url": {"url": data_url(PNG, "image/png")}},
                ],
            }
        ],
    )

    assert answer.choices[0].message.content
    stored = httpx.get(f"{server.sandbox_url}/_sandbox/web/uploads").json()["uploads"]
    assert hashlib.sha256(PNG).hexdigest() in [upload["digest"] for upload in stored]
    entry = httpx.get(f"{server.sandbox_url}/_sandbox/web/entries").json()["entries"][0]
    assert len(entry["body"]["params"]["attachments"]) == 1


@pytest.mark.parametrize("background", [False, True])
def test_it_shows_a_picture_through_responses(
    server: RunningServer, by_openai: openai.OpenAI, background: bool
) -> None:
    content = PNG + bytes([background])
    made = by_openai.responses.create(
        model="gpt",
        background=background,
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is in this picture?"},
                    {"type": "input_image", "detail": "auto", "image_url": data_url(content, "image/png")},
                ],
            }
        ],
    )
    while made.status in ("queued", "in_progress"):
        time.sleep(0.1)
        made = by_openai.responses.retrieve(made.id)

    assert (made.status, bool(made.output_text)) == ("completed", True)
    stored = httpx.get(f"{server.sandbox_url}/_sandbox/web/uploads").json()["uploads"]
    assert hashlib.sha256(content).hexdigest() in [upload["digest"] for upload in stored]


def sum_up(by_openai: openai.OpenAI, processing: str) -> str:
    """What is said about a document whose reading goes as `processing` says."""
    kept = by_openai.files.create(
        file=(f"notes [sandbox:processing={processing}].txt", b"some words"), purpose="user_data"
    )
    answer = by_openai.with_options(max_retries=0).chat.completions.create(
        model="gpt",
        messages=[{"role": "user", "content": [{"type": "file", "file": {"file_id": kept.id}}]}],
    )
    return answer.choices[0].message.content or ""


def test_it_reads_a_document_where_the_upstream_does(by_openai: openai.OpenAI) -> None:
    assert sum_up(by_openai, "works")


def test_it_tells_the_sdk_that_documents_cannot_be_read(by_openai: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        sum_up(by_openai, "blocked")

    assert (caught.value.status_code, caught.value.param) == (502, "input")


def peak(pid: int) -> int:
    """KiB of memory that a process had at most since it was last asked to forget (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


class Sender:
    """Sends a form of 40 MiB, announced or not, as far as it is told to; then waits for the answer."""

    def __init__(self, server: RunningServer, *, announced: bool) -> None:
        parts = urlsplit(server.url)
        self.body = HEAD + bytes(40 * MIB)
        self.announced = announced
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        self.connection.putrequest("POST", "/v1/files")
        self.connection.putheader("Authorization", f"Bearer {server.api_key}")
        self.connection.putheader("Content-Type", "multipart/form-data; boundary=mark")
        length = ("Content-Length", str(len(self.body))) if announced else ("Transfer-Encoding", "chunked")
        self.connection.putheader(*length)
        self.connection.endheaders()

    def send(self, size: int) -> tuple[int, bytes]:
        for start in range(0, size, 64 * 1024):
            piece = self.body[start : start + 64 * 1024]
            self.connection.send(piece if self.announced else b"%x\r\n%b\r\n" % (len(piece), piece))
        with closing(self.connection):
            answer = self.connection.getresponse()
            return answer.status, answer.read()


def growth(server: RunningServer, *, announced: bool, size: int) -> int:
    """KiB that the process takes to refuse an upload."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    before = peak(server.pid)
    status, body = Sender(server, announced=announced).send(size)
    assert (status, b'"param": "file"' in body) == (413, True)
    return peak(server.pid) - before


@pytest.mark.embedded
@pytest.mark.parametrize(("announced", "size"), [(True, 64 * 1024), (False, 20 * MIB + 192 * 1024)])
def test_it_refuses_a_large_upload_before_it_is_there_and_holds_none_of_it(
    server: RunningServer, announced: bool, size: int
) -> None:
    """The process does other things meanwhile: what it took at least is what the upload took."""
    assert min(growth(server, announced=announced, size=size) for _ in range(4)) < 10 * 1024
