"""Attachments through `/v1/responses`: asked at once, in the background, and carried on in a chain."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from proxy.models.accounts import WebAccount
from proxy.models.chats import Continuation
from proxy.models.files import FilePiece, ResponseAttachment, StoredFile
from proxy.models.responses import ChatResponse
from proxy.services import files
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, say
from tests.proxy.responding import answer, ask, in_background, row_of, work
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter(scopes=["chat", "files"])


def data_url(content: bytes = PNG) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def picture(content: bytes = PNG) -> Json:
    return {"type": "input_image", "image_url": data_url(content)}


def question(*parts: Json, text: str = "What is it?") -> list[Json]:
    return [{"role": "user", "content": [{"type": "input_text", "text": text}, *parts]}]


def keep(who: Chatter, name: str = "a.png") -> str:
    return str(who.client.post("/v1/files", files={"file": (name, PNG, "image/png")}).json()["id"])


def digests(sandbox: SandboxServer) -> list[str]:
    """Of the bytes that the upstream's storage got."""
    return [upload["digest"] for upload in sandbox.control("web/uploads")["uploads"]]


def shown(sandbox: SandboxServer) -> int:
    """How many attachments came with the newest question."""
    return len(sandbox.web_entries()[0]["body"]["params"]["attachments"])


PICTURE = hashlib.sha256(PNG).hexdigest()


def test_it_shows_what_is_attached(who: Chatter, sandbox: SandboxServer) -> None:
    file = {"type": "input_file", "file_id": keep(who)}

    whole = answer(who, question(picture(), file))

    assert whole["status"] == "completed"
    assert digests(sandbox) == [PICTURE, PICTURE]
    assert shown(sandbox) == 2


def test_it_stores_no_base64_with_a_response(who: Chatter) -> None:
    row = row_of(answer(who, question(picture())))

    held = json.dumps([row.body, row.input_items, row.said, row.prepared])
    assert base64.b64encode(PNG).decode()[40:80] not in held
    assert "[Attached file: image]" in held
    listed = who.client.get(f"/v1/responses/resp_{row.pk.hex}/input_items").text
    assert "base64" not in listed


def test_it_shows_it_to_the_worker_that_answers(who: Chatter, sandbox: SandboxServer) -> None:
    row = in_background(who, question(picture(), {"type": "input_file", "file_id": keep(who)}))
    assert digests(sandbox) == []

    assert work(row).status == "completed"

    assert digests(sandbox) == [PICTURE, PICTURE]
    assert shown(sandbox) == 2


def test_it_carries_on_what_an_earlier_response_was_shown(who: Chatter, sandbox: SandboxServer) -> None:
    first = answer(who, question(picture()))
    Continuation.objects.all().delete()

    second = answer(who, "And now?", previous_response_id=first["id"])
    assert shown(sandbox) == 1
    Continuation.objects.all().delete()
    answer(who, question(picture(PNG + b"2")), previous_response_id=second["id"])

    assert shown(sandbox) == 2
    assert set(digests(sandbox)) == {PICTURE, hashlib.sha256(PNG + b"2").hexdigest()}


def test_it_carries_on_in_a_conversation(who: Chatter, sandbox: SandboxServer) -> None:
    answer(who, question(picture()), conversation="talk")
    Continuation.objects.all().delete()

    answer(who, "And now?", conversation="talk")

    assert shown(sandbox) == 1


def test_it_uploads_nothing_twice_in_a_thread_that_goes_on(who: Chatter, sandbox: SandboxServer) -> None:
    first = answer(who, question(picture(), text=f"What? {say('A cat.')}"))

    answer(who, "Sure?", previous_response_id=first["id"])

    assert sandbox.web_entries()[0]["body"]["params"]["last_backend_uuid"]
    assert len(digests(sandbox)) == 1


def test_it_counts_what_it_carries_on(who: Chatter) -> None:
    first = answer(who, question(*[picture(PNG + bytes([number])) for number in range(3)]))

    refused = ask(who, question(picture(), picture(), picture()), previous_response_id=first["id"])

    assert error_of(refused)[:3] == (400, "invalid_request_error", "input")


def test_it_keeps_nothing_of_a_response_that_is_not_stored(who: Chatter) -> None:
    answer(who, question(picture()), store=False)

    assert not StoredFile.objects.exists()
    assert not ResponseAttachment.objects.exists()


def test_it_shows_kept_bytes_to_nobody(who: Chatter) -> None:
    answer(who, question(picture()))
    [kept] = StoredFile.objects.all()

    assert who.client.get("/v1/files").json()["data"] == []
    for path in ("", "/content"):
        assert who.client.get(f"/v1/files/file-{kept.pk.hex}{path}").status_code == 404
    again = question({"type": "input_file", "file_id": f"file-{kept.pk.hex}"})
    assert ask(who, again).status_code == 400


def test_it_forgets_the_bytes_with_the_last_response_that_holds_them(who: Chatter) -> None:
    first = answer(who, question(picture()))
    second = answer(who, "And now?", previous_response_id=first["id"])
    StoredFile.objects.update(touched_at=timezone.now() - timedelta(hours=1))

    who.client.request("DELETE", f"/v1/responses/{first['id']}")
    assert files.tidy_files() == 0
    who.client.request("DELETE", f"/v1/responses/{second['id']}")

    assert files.tidy_files() == 1
    assert not FilePiece.objects.exists()


def test_it_says_when_what_it_should_carry_on_is_gone(who: Chatter) -> None:
    identity = keep(who)
    first = answer(who, question({"type": "input_file", "file_id": identity}))
    who.client.request("DELETE", f"/v1/files/{identity}")

    refused = ask(who, "And now?", previous_response_id=first["id"])

    assert error_of(refused)[:3] == (400, "invalid_request_error", "input")
    assert "attach it again" in refused.json()["error"]["message"]


def test_it_ends_a_waiting_response_whose_attachment_was_deleted(who: Chatter) -> None:
    identity = keep(who)
    row = in_background(who, question({"type": "input_file", "file_id": identity}))
    who.client.request("DELETE", f"/v1/files/{identity}")

    assert work(row).status == "failed"
    assert who.spent == "0 0"


def test_it_makes_room_for_new_bytes_by_forgetting_the_oldest(
    who: Chatter, sandbox: SandboxServer, settings: Settings
) -> None:
    settings.FILES_USER_MIB = 2
    pictures = [PNG + bytes([number]) + bytes(900_000) for number in range(3)]
    made = [answer(who, question(picture(content))) for content in pictures]
    Continuation.objects.all().delete()

    assert error_of(ask(who, "And now?", previous_response_id=made[0]["id"]))[0] == 400
    assert ask(who, "And now?", previous_response_id=made[2]["id"]).status_code == 200
    assert who.client.post("/v1/files", files={"file": ("a", bytes(2_000_000))}).status_code == 200


def test_it_says_when_there_is_no_room_for_what_it_would_keep(who: Chatter, settings: Settings) -> None:
    settings.FILES_TOTAL_MIB = 0

    assert error_of(ask(who, question(picture())))[:3] == (413, "invalid_request_error", "input")
    assert (who.spent, ChatResponse.objects.exists()) == ("0 0", False)
    assert ask(who, question(picture()), store=False).status_code == 200


@pytest.mark.parametrize("background", [False, True])
def test_it_refuses_what_cannot_be_attached(who: Chatter, sandbox: SandboxServer, background: bool) -> None:
    bad = {"type": "input_image", "image_url": "data:image/png;base64,no"}

    assert error_of(ask(who, question(bad), background=background))[:3] == (
        400,
        "invalid_request_error",
        "input",
    )
    assert sandbox.web_requests() == []
    assert not ChatResponse.objects.exists()


def test_it_says_clearly_that_documents_cannot_be_read_today(who: Chatter) -> None:
    words = base64.b64encode(b"words").decode()
    file = {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{words}"}

    assert error_of(ask(who, question(file)))[:3] == (502, "upstream_error", "input")
    assert who.spent == "0 0"
