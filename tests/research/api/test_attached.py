"""What is attached at the doors of research: inline, kept and by address, and what is wrong with it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from proxy.models.files import ResearchAttachment, StoredFile
from research.models.runs import Run
from tests.proxy.chatting import error_of
from tests.research.api.callers import Caller, caller

pytestmark = pytest.mark.django_db(transaction=True)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(1_500_000)
DATA = f"data:image/png;base64,{b64encode(PNG).decode()}"
AGENT = {"path": "/v1/agent", "kind": "input_image"}
RESPONSES = {"path": "/v1/responses", "kind": "input_image"}
SONAR = {"path": "/v1/async/sonar", "kind": "image_url"}
SDK = {"path": "/async/chat/completions", "kind": "image_url"}
DOORS = [AGENT, RESPONSES, SONAR, SDK]


@pytest.fixture
def who() -> Caller:
    return caller(scopes=["research", "files"])


def sent(who: Caller, door: dict[str, str], *parts: dict[str, Any]) -> Any:
    message = {"role": "user", "content": [{"type": "text", "text": "What is on it?"}, *parts]}
    body: dict[str, Any] = {"input": [message], "preset": "2m"}
    if door["kind"] == "image_url":
        body = {"request": {"model": "sonar-deep-research", "messages": [message]}}
    return who.client.post(door["path"], json=body)


def picture(door: dict[str, str], url: str = DATA) -> dict[str, Any]:
    return {"type": door["kind"], "image_url": {"url": url} if door["kind"] == "image_url" else url}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door["path"])
def test_it_takes_more_than_a_mebibyte_inline(who: Caller, door: dict[str, str]) -> None:
    address = "https://example.org/b.png"

    assert sent(who, door, picture(door), picture(door, address)).status_code == 200

    rows = [(row.is_picture, row.url, row.file and row.file.size) for row in ResearchAttachment.objects.all()]
    assert rows == [(True, "", len(PNG)), (True, address, None)]
    assert "base64" not in str(Run.objects.get().options)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door["path"])
@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("data:image/png;base64,no", 400),
        ("data:image/png;base64,aGFsbG8=", 400),
        ("http://example.org/a.png", 400),
        ("https://127.0.0.1/a.png", 400),
        (f"data:image/png;base64,{'A' * 28_100_000}", 413),
    ],
    ids=["no base64", "no picture", "no https", "private", "too large"],
)
def test_it_starts_nothing_with_what_cannot_be_attached(
    who: Caller, door: dict[str, str], url: str, status: int
) -> None:
    response = sent(who, door, picture(door, url))

    assert response.status_code == status, response.text
    if door in (AGENT, RESPONSES):
        assert error_of(response)[2] == "input"
    assert not Run.objects.exists()
    assert not StoredFile.objects.exists()


def test_it_takes_five_at_most(who: Caller) -> None:
    parts = [picture(AGENT, f"https://example.org/{number}.png") for number in range(6)]

    assert sent(who, AGENT, *parts[:5]).status_code == 200
    assert error_of(sent(who, AGENT, *parts))[:3] == (400, "invalid_request_error", "input")
