"""What is attached to a run: let in at its start, in the upstream's hands with the question."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from portal.services.principal import Principal
from portal.services.spool import Spool
from portal.wire.errors import BadRequest
from proxy.models.files import StoredFile
from proxy.protocol.chat_messages import Attachment
from proxy.protocol.files import file_id
from proxy.services.files import tidy_files
from proxy.services.kept_files import keep_bytes
from research.models.runs import Run
from research.protocol.outcome import Options
from research.protocol.states import State
from research.services.delete import delete_run
from research.services.start import retry_run
from tests.proxy.accounts import account
from tests.research.driving import drive
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
FAR = Attachment("moon.png", url="https://example.org/moon.png", is_picture=True)


@pytest.fixture
def who(sandbox: SandboxServer, settings: Settings) -> Principal:
    settings.RESEARCH_BACKENDS = ["web"]
    return somebody(credits=10)


def a_file(
    who: Principal, name: str = "moon.png", content: bytes = PNG, kind: str = "image/png"
) -> Attachment:
    stored = keep_bytes(who.user_id, name, kind, Spool(content))
    StoredFile.objects.filter(pk=stored).update(kept=False)
    return Attachment(name, file_id=file_id(stored))


def inline(content: bytes = PNG, kind: str = "image/png", name: str = "moon.png") -> Attachment:
    return Attachment(name, data=f"data:{kind};base64,{b64encode(content).decode()}")


def asked(who: Principal, *attached: Attachment, question: str = "What is on it?", **more: Any) -> Run:
    options = Options(attachments=tuple(one.reference for one in attached))
    return ask(who, question, options=options, attached=attached, **more)


def digest(content: bytes = PNG) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


@pytest.mark.parametrize("given", [a_file, lambda _: inline()])
def test_it_gives_the_session_a_picture_before_it_asks(
    sandbox: SandboxServer, who: Principal, given: Callable[[Principal], Attachment]
) -> None:
    account()
    run = drive(asked(who, given(who)))
    assert (run.state, run.ignored) == (State.COMPLETED, [])
    (upload,) = sandbox.control("web/uploads")["uploads"]
    assert (upload["received"], f"sha256:{upload['digest']}") == (len(PNG), digest())
    (address,) = sandbox.web_entries()[0]["body"]["params"]["attachments"]
    assert upload["id"] in address


def test_it_uploads_anew_for_the_account_that_takes_over(sandbox: SandboxServer, who: Principal) -> None:
    account("busy", "sandbox-max-busy", priority=-1)
    account("good")
    run = drive(asked(who, a_file(who)))
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
    run = drive(asked(who, a_file(who, "a.pdf", b"%PDF-1.7", "application/pdf")))
    assert run.state == State.FAILED
    assert "cannot read documents" in run.error_message
    assert sandbox.web_entries() == []


def test_it_reads_documents_where_the_upstream_does(sandbox: SandboxServer, who: Principal) -> None:
    account(token="sandbox-max-docs")
    run = drive(asked(who, a_file(who, "a.pdf", b"%PDF-1.7", "application/pdf")))
    assert run.state == State.COMPLETED


def test_it_fails_where_a_file_is_gone_by_then(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = asked(who, a_file(who))
    StoredFile.objects.all().delete()
    run = drive(run)
    assert run.state == State.FAILED
    assert "no longer kept" in run.error_message


@pytest.mark.parametrize("name", ["file-00000000000000000000000000000000", "file-x", "../x"])
def test_it_starts_nothing_with_a_file_that_does_not_exist(who: Principal, name: str) -> None:
    with pytest.raises(BadRequest, match="No file with this id exists"):
        asked(who, Attachment("x", file_id=name))


def test_it_answers_for_the_file_of_another_user_as_for_none(who: Principal) -> None:
    with pytest.raises(BadRequest, match="No file with this id exists"):
        asked(somebody(), a_file(who))


@pytest.mark.parametrize("backend", ["agent", "sonar"])
def test_it_goes_in_the_request_where_the_upstream_takes_it(
    sandbox: SandboxServer, settings: Settings, who: Principal, backend: str
) -> None:
    settings.RESEARCH_BACKENDS = [backend]
    run = drive(asked(who, a_file(who), inline(b"words", "text/plain", "a.txt"), FAR))
    assert (run.state, run.ignored) == (State.COMPLETED, [])
    [job] = sandbox.jobs()
    assert job["attached"] == [digest(), digest(b"words"), FAR.url]


def test_it_sends_nothing_without_a_file_that_is_gone_by_then(
    sandbox: SandboxServer, settings: Settings, who: Principal
) -> None:
    settings.RESEARCH_BACKENDS = ["agent"]
    run = asked(who, a_file(who))
    StoredFile.objects.all().delete()
    run = drive(run)
    assert (run.state, sandbox.jobs()) == (State.FAILED, [])
    assert run.credits_refunded == run.credits_charged
    assert "no longer kept" in run.error_message


def test_it_keeps_bytes_for_as_long_as_the_run(who: Principal) -> None:
    run = asked(who, inline())
    StoredFile.objects.update(touched_at=timezone.now() - timedelta(hours=1))
    assert tidy_files() == 0

    delete_run(who, run.pk)

    assert tidy_files() == 1
    assert not StoredFile.objects.exists()


def test_it_keeps_them_once_for_the_same_request(who: Principal) -> None:
    first = asked(who, inline(), idempotency_key="k")
    assert asked(who, inline(), idempotency_key="k").pk == first.pk
    assert StoredFile.objects.count() == 1


def test_it_asks_a_retry_with_the_same(settings: Settings, sandbox: SandboxServer, who: Principal) -> None:
    settings.RESEARCH_BACKENDS = ["agent"]
    old = drive(asked(who, inline(), FAR))

    drive(retry_run(who, old.pk))

    assert [job["attached"] for job in sandbox.jobs()] == [[digest(), FAR.url]] * 2


def test_it_retries_nothing_without_what_was_attached(settings: Settings, who: Principal) -> None:
    settings.RESEARCH_BACKENDS = ["agent"]
    old = drive(asked(who, inline()))
    StoredFile.objects.all().delete()

    with pytest.raises(BadRequest, match="no longer kept"):
        retry_run(who, old.pk)
