"""Chats with something attached, over a real sandbox's upload flow (proxy-contract §11)."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import httpx
import pytest

from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from tests.proxy.accounts import account, token
from tests.proxy.chatting import Chatter, chatter, error_of, say
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
ASK = "/rest/sse/perplexity_ask"
CREATE = "/rest/uploads/create_upload_url"


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter(scopes=["chat", "files"])


def data_url(content: bytes = PNG, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def picture(url: str = "") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url or data_url()}}


def document(name: str, content: bytes = b"words", kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": data_url(content, kind)}}


def ask(who: Chatter, *parts: dict[str, Any], text: str = "What is it?", **fields: Any) -> httpx.Response:
    content = [{"type": "text", "text": text}, *parts]
    return who.chat([{"role": "user", "content": content}], **fields)


def keep(who: Chatter, name: str, content: bytes = PNG, kind: str = "image/png") -> str:
    made = who.client.post("/v1/files", files={"file": (name, content, kind)})
    assert made.status_code == 200, made.text
    return str(made.json()["id"])


def uploads(sandbox: SandboxServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sandbox.control("web/uploads")["uploads"]
    return found


def asked(sandbox: SandboxServer) -> dict[str, Any]:
    """The body of the newest question."""
    body: dict[str, Any] = sandbox.web_entries()[0]["body"]
    return body


def test_it_shows_a_picture_to_the_account_that_answers(who: Chatter, sandbox: SandboxServer) -> None:
    answer = ask(who, picture())

    assert answer.status_code == 200, answer.text
    [upload] = uploads(sandbox)
    assert upload["received"] == len(PNG)
    assert upload["digest"] == hashlib.sha256(PNG).hexdigest()
    assert (upload["filename"], upload["content_type"]) == ("image.png", "image/png")
    body = asked(sandbox)
    [address] = body["params"]["attachments"]
    assert address.endswith(f"/private/user_uploads/{upload['id']}.png")
    assert "s--" not in address
    assert "[Attached file: image]" in body["query_str"]
    assert base64.b64encode(PNG).decode()[:40] not in json.dumps(body)
    assert who.spent == "0.1 0"
