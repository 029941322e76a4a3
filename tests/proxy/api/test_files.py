"""`/v1/files…`: in, listed, out, gone; and everything that is not let in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from portal.api.lean import Doors
from portal.api.streaming import Message
from proxy.api import files
from proxy.models.files import FilePiece, StoredFile
from proxy.protocol.files import LARGEST_FILE
from proxy.services.files import PIECE
from tests.api_client import Client
from tests.proxy.chatting import Chatter, chatter, error_of

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/v1/files"
KIND = "multipart/form-data; boundary=mark"
HEAD = b'--mark\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'


@pytest.fixture
def who() -> Chatter:
    return chatter(scopes=["files"])


def upload(who: Chatter, name: str = "a.txt", content: bytes = b"text", **fields: str) -> httpx.Response:
    return who.client.post(PATH, files={"file": (name, content)}, data=fields)


def kept(who: Chatter, name: str = "a.txt", content: bytes = b"text", **fields: str) -> dict[str, Any]:
    answer = upload(who, name, content, **fields)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_it_keeps_a_file_and_gives_it_back(who: Chatter) -> None:
    content = bytes(range(256)) * 10_000

    made = kept(who, "données.bin", content, purpose="assistants")

    assert made | {"id": "", "created_at": 0} == {
        "id": "",
        "object": "file",
        "bytes": len(content),
        "created_at": 0,
        "filename": "données.bin",
        "purpose": "assistants",
        "status": "processed",
        "status_details": None,
    }
    assert who.client.get(f"{PATH}/{made['id']}").json() == made
    given = who.client.get(f"{PATH}/{made['id']}/content", headers={"accept": "application/binary"})
    assert given.content == content
    assert given.headers["content-type"] == "application/octet-stream"
    assert given.headers["content-disposition"] == "attachment"
    assert given.headers["x-content-type-options"] == "nosniff"
    assert given.headers["content-length"] == str(len(content))
    assert FilePiece.objects.count() == 3


def test_it_gives_back_what_came_in_pieces_larger_than_its_own(who: Chatter) -> None:
    content = bytes(range(251)) * 12_000
    body = HEAD + content + b"\r\n--mark--\r\n"

    made = who.client.post(PATH, content=body, headers={"content-type": KIND}).json()

    assert made["bytes"] == len(content) > 2 * PIECE
    assert who.client.get(f"{PATH}/{made['id']}/content").content == content


def test_it_tells_the_head_of_a_download_alone(who: Chatter) -> None:
    made = kept(who, "a", b"12345")

    answer = who.client.request("HEAD", f"{PATH}/{made['id']}/content")

    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "5")


def test_it_deletes_a_file_with_everything_of_it(who: Chatter) -> None:
    made = kept(who)

    gone = who.client.request("DELETE", f"{PATH}/{made['id']}")

    assert gone.json() == {"id": made["id"], "object": "file", "deleted": True}
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        assert error_of(who.client.request(method, f"{PATH}/{made['id']}{path}"))[::2] == (404, "file_id")
    assert not FilePiece.objects.exists()


def test_it_pages_as_openai_does(who: Chatter) -> None:
    made = [kept(who, f"{number}.txt")["id"] for number in range(3)]

    first = who.client.get(f"{PATH}?limit=2").json()
    rest = who.client.get(f"{PATH}?limit=2&after={first['last_id']}").json()

    assert [file["id"] for file in first["data"] + rest["data"]] == made[::-1]
    assert (first["first_id"], first["last_id"], first["has_more"]) == (made[2], made[1], True)
    assert (rest["object"], rest["has_more"]) == ("list", False)
    assert who.client.get(f"{PATH}?order=asc").json()["first_id"] == made[0]
    assert who.client.get(f"{PATH}?purpose=vision").json()["data"] == []


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("order=x", "order"),
        ("purpose=x", "purpose"),
        (f"after=file-{'0' * 32}", "after"),
        ("after=x", "after"),
    ],
)
def test_it_names_what_is_wrong_with_a_list(who: Chatter, query: str, param: str) -> None:
    assert error_of(who.client.get(f"{PATH}?{query}")) == (400, "invalid_request_error", param, None)


def test_it_answers_anothers_file_like_one_that_does_not_exist(who: Chatter) -> None:
    made, stranger = kept(who)["id"], chatter(scopes=["files"])
    answers = set()

    for identity in (made, f"file-{'0' * 32}", "file-x", "nonsense", made.upper()):
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            answer = stranger.client.request(method, f"{PATH}/{identity}{path}")
            answers.add((answer.status_code, answer.content))

    assert len(answers) == 1
    assert next(iter(answers))[0] == 404
    assert stranger.client.get(PATH).json()["data"] == []
    assert who.client.get(f"{PATH}/{made}").status_code == 200


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("../../etc/passwd", 400),
        ("a/b", 400),
        ("..", 400),
        ("x" * 300, 400),
        ("photo\u202egpj.exe", 400),
        ("تقرير الأبحاث.pdf", 200),
        ("x" * 255, 200),
    ],
)
def test_it_takes_names_and_no_paths(who: Chatter, name: str, status: int) -> None:
    answer = upload(who, name)

    assert answer.status_code == status
    assert status == 200 or answer.json()["error"]["param"] == "file"
    assert StoredFile.objects.count() == (status == 200)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", KIND),
        (b"no form", KIND),
        (b"--mark--\r\n", KIND),
        (HEAD + b"half", KIND),
        (HEAD + b"\r\n--mark--\r\n", KIND),
        (HEAD + b"a\r\n" + HEAD + b"b\r\n--mark--\r\n", KIND),
        (HEAD + b"text\r\n--mark--\r\n", "multipart/form-data"),
        (b"{}", "application/json"),
        (b"file=text", "application/x-www-form-urlencoded"),
    ],
)
def test_it_refuses_malformed_forms_and_keeps_nothing(who: Chatter, body: bytes, kind: str) -> None:
    answer = who.client.post(PATH, content=body, headers={"content-type": kind})

    assert error_of(answer) == (400, "invalid_request_error", "file", None)
    assert not StoredFile.objects.exists()


def test_it_takes_the_largest_file_and_no_byte_more(who: Chatter) -> None:
    assert kept(who, "a", bytes(LARGEST_FILE))["bytes"] == LARGEST_FILE

    answer = upload(who, "a", bytes(LARGEST_FILE + 1))

    assert error_of(answer) == (413, "invalid_request_error", "file", None)
    assert StoredFile.objects.count() == 1


def test_it_needs_the_scope_for_files() -> None:
    chatty = chatter(scopes=["chat"])

    for answer in (upload(chatty), chatty.client.get(PATH)):
        assert answer.status_code == 403
    assert Client(chatty.client.application).post(PATH, files={"file": b"x"}).status_code == 401


def test_it_says_that_there_is_no_room_left(who: Chatter, settings: Settings) -> None:
    settings.FILES_USER_MIB = 1
    kept(who, "a", bytes(1024 * 1024))

    assert error_of(upload(who)) == (413, "invalid_request_error", "file", None)


class Sender:
    """A client that sends its body as the test says, and counts what was taken of it."""

    def __init__(self, who: Chatter, pieces: AsyncIterator[bytes], **headers: str) -> None:
        self.pieces, self.taken = pieces, 0
        self.sent: list[Message] = []
        given = {"authorization": f"Bearer {who.key}", "content-type": KIND, **headers}
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "query_string": b"",
            "client": ("127.0.0.1", 5),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }

    async def receive(self) -> Message:
        piece = await anext(self.pieces, None)
        if piece is None:
            return {"type": "http.disconnect"}
        self.taken += len(piece)
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def visit(self, seconds: float = 30.0) -> int:
        """The status; 0 for none."""
        await Doors(files.routes, body_seconds=seconds)(self.scope, self.receive, self.send)
        return int(self.sent[0]["status"]) if self.sent else 0


async def endless() -> AsyncIterator[bytes]:
    yield HEAD
    for _ in range(40 * 16):
        yield bytes(64 * 1024)


async def halting() -> AsyncIterator[bytes]:
    yield HEAD + bytes(1000)
    await asyncio.Event().wait()


async def leaving() -> AsyncIterator[bytes]:
    yield HEAD + bytes(2 * 1024 * 1024)


def test_it_stops_reading_at_the_first_byte_too_many(who: Chatter) -> None:
    sender = Sender(who, endless(), **{"transfer-encoding": "chunked"})

    assert asyncio.run(sender.visit()) == 413
    assert LARGEST_FILE < sender.taken < LARGEST_FILE + 128 * 1024
    assert not StoredFile.objects.exists()


def test_it_reads_nothing_of_a_body_that_is_announced_too_large(who: Chatter) -> None:
    sender = Sender(who, endless(), **{"content-length": str(40 * 1024 * 1024)})

    assert asyncio.run(sender.visit()) == 413
    assert sender.taken == 0


def test_it_reads_nothing_of_a_strangers_body(who: Chatter) -> None:
    sender = Sender(who, endless(), authorization="Bearer sonde_wrong")

    assert asyncio.run(sender.visit()) == 401
    assert sender.taken == 0


def test_it_does_not_wait_for_a_body_that_stops(who: Chatter) -> None:
    assert asyncio.run(Sender(who, halting()).visit(seconds=0.01)) == 408
    assert not StoredFile.objects.exists()


def test_it_keeps_nothing_of_a_sender_who_leaves(who: Chatter) -> None:
    assert asyncio.run(Sender(who, leaving()).visit()) == 0
    assert not StoredFile.objects.exists()
