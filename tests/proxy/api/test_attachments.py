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


def test_it_shows_a_file_that_is_kept_here_under_its_own_name(who: Chatter, sandbox: SandboxServer) -> None:
    identity = keep(who, "holiday.png")

    answer = ask(who, {"type": "file", "file": {"file_id": identity}})

    assert answer.status_code == 200, answer.text
    assert [upload["filename"] for upload in uploads(sandbox)] == ["holiday.png"]
    assert "[Attached file: holiday.png]" in asked(sandbox)["query_str"]
    assert identity not in asked(sandbox)["query_str"]


def test_it_has_documents_read_where_perplexity_reads_them(who: Chatter, sandbox: SandboxServer) -> None:
    WebAccount.objects.all().delete()
    account(token="sandbox-docs-max-tester")

    answer = ask(who, document("notes.md", b"# Notes", "text/markdown"), picture())

    assert answer.status_code == 200, answer.text
    read, seen = asked(sandbox)["params"]["attachments"]
    assert read.endswith("/notes.md?processed")
    assert "/image/" in seen
    assert "[Attached file: notes.md] [Attached file: image]" in asked(sandbox)["query_str"]


@pytest.mark.parametrize("stream", [False, True])
def test_it_says_clearly_that_documents_cannot_be_read_today(
    who: Chatter, sandbox: SandboxServer, stream: bool
) -> None:
    answer = ask(who, document("notes.txt"), stream=stream)

    assert error_of(answer) == (502, "upstream_error", "input", None)
    assert "cannot read documents at present" in answer.json()["error"]["message"]
    assert answer.headers["x-should-retry"] == "false"
    assert sandbox.web_entries() == []
    assert who.spent == "0 0"
    assert (who.turn.state, who.turn.lease_until) == ("failed", None)
    assert WebAccount.objects.get().health == "unchecked", "chats and pictures work"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a [sandbox:upload=error].png", "image/png"),
        ("a [sandbox:upload=limited].png", "image/png"),
        ("a [sandbox:upload=missing].png", "image/png"),
        ("a [sandbox:upload=rejected].png", "image/png"),
        ("a [sandbox:upload=refused].png", "image/png"),
        ("a [sandbox:processing=failed].txt", "text/plain"),
        ("a [sandbox:processing=tokens].txt", "text/plain"),
        ("a [sandbox:processing=silent].txt", "text/plain"),
        ("a [sandbox:processing=cut].txt", "text/plain"),
        ("a [sandbox:processing=blocked].txt", "text/plain"),
    ],
)
def test_it_names_the_input_when_the_upstream_does_not_take_it(
    who: Chatter, sandbox: SandboxServer, name: str, kind: str
) -> None:
    identity = keep(who, name, kind=kind)

    answer = ask(who, {"type": "file", "file": {"file_id": identity}})

    assert error_of(answer) == (502, "upstream_error", "input", None)
    assert sandbox.web_entries() == []
    assert who.spent == "0 0"


@pytest.mark.parametrize("processing", ["works", "foreign"])
def test_it_goes_by_what_is_said_of_its_own_document(
    who: Chatter, sandbox: SandboxServer, processing: str
) -> None:
    identity = keep(who, f"a [sandbox:processing={processing}].txt", kind="text/plain")

    assert ask(who, {"type": "file", "file": {"file_id": identity}}).status_code == 200
    assert asked(sandbox)["params"]["attachments"][0].endswith("?processed")


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([picture("data:image/png;base64,no")], 400),
        ([picture("data:image/png,words")], 400),
        ([picture(data_url(b"GIF89a"))], 400),
        ([picture(data_url(b"x", "image/svg+xml"))], 400),
        ([document("a.zip", b"PK", "application/zip")], 400),
        ([picture("http://example.org/a.png")], 400),
        ([picture("https://127.0.0.1/a.png")], 400),
        ([picture("https://user:pass@example.org/a.png")], 400),
        ([{"type": "file", "file": {"file_id": "file-nothing"}}], 400),
        ([{"type": "file", "file": {"file_url": "https://localhost/a.pdf"}}], 400),
        ([picture()] * 6, 400),
        ([picture(data_url(PNG + bytes(10 * 1024 * 1024)))] * 2, 413),
    ],
)
def test_it_asks_nobody_before_everything_is_sound(
    who: Chatter, sandbox: SandboxServer, parts: list[dict[str, Any]], status: int
) -> None:
    answer = ask(who, picture(), *parts) if len(parts) == 1 else ask(who, *parts)

    assert error_of(answer) == (status, "invalid_request_error", "input", None)
    assert sandbox.web_requests() == []
    assert not ChatTurn.objects.exists()


def test_it_checks_the_length_before_it_uploads(who: Chatter, sandbox: SandboxServer) -> None:
    answer = ask(who, picture(), text="x" * 96_000)

    assert error_of(answer)[3] == "context_length_exceeded"
    assert uploads(sandbox) == []


def test_it_takes_what_twenty_mebibytes_are_in_base64(who: Chatter, sandbox: SandboxServer) -> None:
    content = PNG + bytes(20 * 1024 * 1024 - len(PNG))

    assert ask(who, picture(data_url(content))).status_code == 200
    assert uploads(sandbox)[0]["received"] == len(content)


def test_it_answers_anothers_file_like_one_that_does_not_exist(who: Chatter) -> None:
    identity = keep(who, "mine.png")
    stranger = chatter(scopes=["chat", "files"])

    foreign, unknown = (
        ask(stranger, {"type": "file", "file": {"file_id": one}}) for one in (identity, f"file-{'0' * 32}")
    )

    assert (foreign.status_code, foreign.content) == (unknown.status_code, unknown.content)
    assert foreign.status_code == 400


def test_it_goes_to_another_account_when_one_may_not_upload(who: Chatter, sandbox: SandboxServer) -> None:
    account("first", token="sandbox-rejected-max-first", priority=-1)

    answer = ask(who, picture())

    assert answer.status_code == 200, answer.text
    assert [upload["account"] for upload in uploads(sandbox)] == ["sandbox-max-tester"]
    assert who.spent == "0.1 0"


def test_it_uploads_again_for_the_account_that_answers_in_the_end(
    who: Chatter, sandbox: SandboxServer
) -> None:
    account("first", token="sandbox-busy-max-first", priority=-1)

    assert ask(who, picture(), document("a [sandbox.png", PNG, "image/png")).status_code == 200

    accounts = sorted(upload["account"] for upload in uploads(sandbox))
    assert accounts == ["sandbox-busy-max-first"] * 2 + ["sandbox-max-tester"] * 2
    assert len(asked(sandbox)["params"]["attachments"]) == 2


def test_it_says_what_the_last_account_said_of_an_upload(who: Chatter, sandbox: SandboxServer) -> None:
    sandbox.control("settings", {"fail_next": {"fault": "server-error", "phase": "upload", "api": "web"}})

    assert error_of(ask(who, picture())) == (502, "upstream_error", "input", None)
    assert WebAccount.objects.get().health == "unchecked"
    assert who.spent == "0 0"


def test_it_says_so_when_the_storage_breaks_off(who: Chatter, sandbox: SandboxServer) -> None:
    sandbox.control("settings", {"fail_next": {"fault": "drop", "phase": "storage", "api": "web"}})

    assert error_of(ask(who, picture())) == (502, "upstream_error", "input", None)
    assert ask(who, picture()).status_code == 200


def test_it_uploads_a_picture_once_in_a_talk_about_it(who: Chatter, sandbox: SandboxServer) -> None:
    said: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": f"What? {say('A cat.')}"}, picture()]}
    ]
    who.chat(said)
    said += [{"role": "assistant", "content": "A cat."}, {"role": "user", "content": f"Sure? {say('Yes.')}"}]

    assert who.chat(said).status_code == 200

    assert len(uploads(sandbox)) == 1
    body = asked(sandbox)
    assert body["params"]["last_backend_uuid"]
    assert body["params"]["attachments"] == []


def test_it_does_not_take_one_picture_for_another_of_its_name(who: Chatter, sandbox: SandboxServer) -> None:
    question = {"type": "text", "text": f"What? {say('A cat.')}"}
    who.chat([{"role": "user", "content": [question, picture()]}])
    other = picture(data_url(PNG + b"other"))

    who.chat(
        [
            {"role": "user", "content": [question, other]},
            {"role": "assistant", "content": "A cat."},
            {"role": "user", "content": "Sure?"},
        ]
    )

    assert asked(sandbox)["params"]["last_backend_uuid"] is None
    assert len(asked(sandbox)["params"]["attachments"]) == 1


def test_it_keeps_the_tokens_that_an_upload_brings(who: Chatter, sandbox: SandboxServer) -> None:
    WebAccount.objects.all().delete()
    restless = account(token="sandbox-rotating-restless-max-tester")

    answer = ask(who, *[picture(data_url(PNG + bytes([number]))) for number in range(5)])

    assert answer.status_code == 200, answer.text
    assert len(asked(sandbox)["params"]["attachments"]) == 5
    assert token(restless) != "sandbox-rotating-restless-max-tester"


def test_it_sends_no_cookie_to_the_storage_and_no_bytes_to_the_question(
    who: Chatter, sandbox: SandboxServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        ask(who, picture())

    stored = sandbox.web_requests("/_storage/*")
    assert len(stored) == 1
    assert not any(name.lower() == "cookie" for name, _ in dict(stored[0]["headers"]).items())
    secret = base64.b64encode(PNG).decode()[40:80]
    assert secret not in caplog.text
    assert secret not in json.dumps(sandbox.web_entries())


@pytest.mark.parametrize("processing", ["works", "failed"])
def test_it_keeps_the_tokens_of_a_reading_however_that_ends(
    who: Chatter, sandbox: SandboxServer, processing: str
) -> None:
    WebAccount.objects.all().delete()
    restless = account(token="sandbox-rotating1-restless-max-tester")
    identity = keep(who, f"a [sandbox:processing={processing}].txt", kind="text/plain")

    ask(who, {"type": "file", "file": {"file_id": identity}})

    assert ask(who).status_code == 200
    assert WebAccount.objects.get(pk=restless.pk).health != "expired"
