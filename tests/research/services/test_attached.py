"""Files attached to a run: checked at its start, in the upstream's hands before the question is."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.services.principal import Principal
from portal.services.spool import Spool
from portal.wire.errors import BadRequest
from proxy.models.files import StoredFile
from proxy.protocol.files import file_id
from proxy.services.kept_files import keep_bytes
from research.protocol.outcome import Options
from research.protocol.states import State
from tests.proxy.accounts import account
from tests.research.driving import drive
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture
def who(sandbox: SandboxServer, settings: Settings) -> Principal:
    settings.RESEARCH_BACKENDS = ["web"]
    return somebody(credits=10)


def a_file(who: Principal, name: str = "moon.png", content: bytes = PNG, kind: str = "image/png") -> str:
    stored = keep_bytes(who.user_id, name, kind, Spool(content))
    StoredFile.objects.filter(pk=stored).update(kept=False)
    return file_id(stored)


def options(*files: str) -> Options:
    return Options(attachments=files)


def test_it_gives_the_session_a_picture_before_it_asks(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = drive(ask(who, "What is on it?", options=options(a_file(who))))
    assert (run.state, run.ignored) == (State.COMPLETED, [])
    (upload,) = sandbox.control("web/uploads")["uploads"]
    assert upload["received"] == len(PNG)
    (address,) = sandbox.web_entries()[0]["body"]["params"]["attachments"]
    assert upload["id"] in address


def test_it_uploads_anew_for_the_account_that_takes_over(sandbox: SandboxServer, who: Principal) -> None:
    account("busy", "sandbox-max-busy", priority=-1)
    account("good")
    run = drive(ask(who, "What is on it?", options=options(a_file(who))))
    assert run.state == State.COMPLETED
    (entry,) = sandbox.web_entries()
    mine = [
        upload["id"]
        for upload in sandbox.control("web/uploads")["uploads"]
        if upload["account"] == entry["account"]
    ]
    assert len(mine) == 1
    assert mine[0] in entry["body"]["params"]["attachments"][0]


def test_it_says_that_documents_cannot_be_read_and_returns_the_credits(
    sandbox: SandboxServer, who: Principal
) -> None:
    account()
    run = drive(ask(who, "Sum it up", options=options(a_file(who, "a.pdf", b"%PDF-1.7", "application/pdf"))))
    assert run.state == State.FAILED
    assert "cannot read documents" in run.error_message
    assert sandbox.web_entries() == []


def test_it_reads_documents_where_the_upstream_does(sandbox: SandboxServer, who: Principal) -> None:
    account(token="sandbox-max-docs")
    run = drive(ask(who, "Sum it up", options=options(a_file(who, "a.pdf", b"%PDF-1.7", "application/pdf"))))
    assert run.state == State.COMPLETED


def test_it_fails_where_a_file_is_gone_by_then(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = ask(who, "What is on it?", options=options(a_file(who)))
    StoredFile.objects.all().delete()
    run = drive(run)
    assert run.state == State.FAILED
    assert "no longer kept" in run.error_message


@pytest.mark.parametrize("name", ["file-00000000000000000000000000000000", "file-x", "../x"])
def test_it_starts_nothing_with_a_file_that_does_not_exist(who: Principal, name: str) -> None:
    with pytest.raises(BadRequest, match="No file with this id exists"):
        ask(who, "What is on it?", options=options(name))


def test_it_answers_for_the_file_of_another_user_as_for_none(who: Principal) -> None:
    with pytest.raises(BadRequest, match="No file with this id exists"):
        ask(somebody(), "What is on it?", options=options(a_file(who)))


def test_it_tells_backends_that_take_no_files_apart(
    sandbox: SandboxServer, settings: Settings, who: Principal
) -> None:
    settings.RESEARCH_BACKENDS = ["agent"]
    run = drive(ask(who, "What is on it?", options=options(a_file(who))))
    assert (run.state, run.ignored) == (State.COMPLETED, ["attachments"])
