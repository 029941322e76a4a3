"""Files chosen in the question form."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from portal.models.users import User
from proxy.models.files import ResearchAttachment, StoredFile
from proxy.services.files import read_file
from research.models.runs import Run
from tests.portal.people import somebody
from tests.research.pages.cast import logged_in

pytestmark = pytest.mark.django_db(transaction=True)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)


@pytest.fixture
def user() -> User:
    return somebody(credits=5)


@pytest.fixture
def client(user: User) -> Client:
    return logged_in(user)


def form(client: Client, *files: SimpleUploadedFile) -> dict[str, object]:
    name = client.get("/").context["asking"].form
    return {"form": name, "question": "What is on it?", "preset": "2m", "files": list(files)}


def file(content: bytes = PNG, name: str = "moon.png", kind: str = "image/png") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content, kind)


def test_it_attaches_them_to_the_run(client: Client) -> None:
    answer = client.post("/", form(client, file(), file(b"words", "a.txt", "text/plain")))

    assert answer.status_code == 302, answer.text
    rows = list(ResearchAttachment.objects.all())
    assert [(row.name, row.content_type, row.is_picture) for row in rows] == [
        ("moon.png", "image/png", True),
        ("a.txt", "text/plain", False),
    ]
    assert rows[0].file_id is not None
    assert b"".join(read_file(rows[0].file_id)) == PNG
    assert "moon.png, a.txt" in client.get(answer.headers["Location"]).text


def test_it_asks_the_same_form_with_the_same_files_once(client: Client) -> None:
    typed = form(client)
    for content in (PNG, PNG, PNG + b"2"):
        client.post("/", typed | {"files": [file(content)]})

    assert Run.objects.count() == StoredFile.objects.count() == 2


@pytest.mark.parametrize(
    ("files", "status", "told"),
    [
        ([file(b"")], 400, "empty"),
        ([file(b"no picture")], 400, "its bytes are not"),
        ([file(b"MZ", "a.exe", "application/x-msdownload")], 400, "cannot be read"),
        ([file(b"x", "a.txt", "text/plain")] * 6, 400, "at most 5"),
        ([file(bytes(11_000_000), f"{n}.txt", "text/plain") for n in "ab"], 413, "20,971,520 bytes"),
    ],
)
def test_it_says_at_the_field_what_is_wrong(
    client: Client, files: list[SimpleUploadedFile], status: int, told: str
) -> None:
    for one in files:
        one.seek(0)
    answer = client.post("/", form(client, *files))

    assert answer.status_code == status
    assert told in answer.context["errors"]["files"]
    assert 'id="files-error"' in answer.text
    assert "Choose them again" in answer.text
    assert not Run.objects.exists()
    assert not StoredFile.objects.exists()


def test_it_says_there_when_there_is_no_room_to_keep_them(client: Client, settings: Settings) -> None:
    settings.FILES_USER_MIB = 1

    answer = client.post("/", form(client, file()))

    assert (answer.status_code, answer.context["errors"].keys()) == (413, {"files"})
