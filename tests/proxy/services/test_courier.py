"""Attachments on their way: fetched once, given to each account once, closed when nobody waits any more."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from django.db import transaction

from portal.wire.errors import Problem
from proxy.protocol.chat import parse_chat
from proxy.protocol.chat_messages import Attachment
from proxy.protocol.delta import Fault, Thread
from proxy.services.attachments import keep_inline
from proxy.services.chat import ChatPlan, open_chat
from proxy.services.courier import Courier
from proxy.services.deep_attachments import bring, hold, let_in
from proxy.services.threads import in_thread
from tests.certificates import make_certificate
from tests.proxy.accounts import account, session
from tests.proxy.chatting import Chatter, chatter, request
from tests.proxy.upstream.site import HOST, Site, guard_of, serving
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(1000)
URL = f"https://{HOST}/cat.png"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "files.pem", HOST)


@pytest_asyncio.fixture
async def site(certificate: Path) -> AsyncIterator[Site]:
    async with serving(certificate) as site:
        yield site


@pytest.fixture
def who(sandbox: SandboxServer) -> Chatter:
    account()
    return chatter(scopes=["chat", "files"])


def uploads(sandbox: SandboxServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sandbox.control("web/uploads")["uploads"]
    return found


async def plan_of(who: Chatter, *urls: str) -> ChatPlan:
    """An open turn about pictures at these addresses."""
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    asked = parse_chat(
        request([{"role": "user", "content": [{"type": "text", "text": "What?"}, *parts]}]), "gpt"
    )
    return await in_thread(lambda: open_chat(who.principal, asked, "api"))


async def test_it_brings_what_an_address_leads_to(
    who: Chatter, sandbox: SandboxServer, site: Site, certificate: Path
) -> None:
    site.gives("/cat.png", PNG, content_type="image/png")
    plan = await plan_of(who, URL)
    courier = Courier(plan.question.enclosures, guard_of(site, certificate))

    assert not isinstance(await courier.bring(plan), Fault)

    [upload] = uploads(sandbox)
    assert (upload["filename"], upload["digest"]) == ("cat.png", hashlib.sha256(PNG).hexdigest())
    assert len(courier.addresses) == 1


async def test_it_fetches_once_and_gives_each_account_its_own(
    who: Chatter, sandbox: SandboxServer, site: Site, certificate: Path
) -> None:
    site.gives("/cat.png", PNG)
    plan = await plan_of(who, URL)
    other = replace(plan, session=replace(session(sandbox, "sandbox-max-other"), account_id=99))
    courier = Courier(plan.question.enclosures, guard_of(site, certificate))

    for again in (plan, plan, other):
        await courier.bring(again)

    assert len(site.asked) == 1
    assert len({upload["account"] for upload in uploads(sandbox)}) == len(uploads(sandbox)) == 2


async def test_it_brings_what_is_attached_to_research(
    who: Chatter, sandbox: SandboxServer, site: Site, certificate: Path
) -> None:
    site.gives("/cat.png", PNG, content_type="image/png")
    inline = Attachment("a.gif", data="data:image/gif;base64,R0lGODlhMDAwMA==")
    key = uuid4()

    def keep() -> None:
        attached = let_in(who.principal, [inline, Attachment("cat.png", url=URL, is_picture=True)])
        kept = keep_inline(who.principal.user_id, attached)
        with transaction.atomic():
            hold(key, kept)

    await in_thread(keep)
    brought = await bring(session(sandbox), key, guard_of(site, certificate))

    assert not isinstance(brought, Fault)
    assert len(brought[1]) == 2
    assert {upload["filename"] for upload in uploads(sandbox)} == {"a.gif", "cat.png"}


async def test_it_leaves_out_what_a_thread_knows(
    who: Chatter, sandbox: SandboxServer, site: Site, certificate: Path
) -> None:
    site.gives("/cat.png", PNG)
    plan = await plan_of(who, URL)
    old = tuple(replace(one, is_new=False) for one in plan.question.enclosures)
    courier = Courier(old, guard_of(site, certificate))

    await courier.bring(replace(plan, follows=Thread("entry")))

    assert (courier.addresses, uploads(sandbox), site.asked) == ((), [], [])


@pytest.mark.parametrize(
    ("body", "status"), [(b"<html>no picture</html>", 400), (PNG[:8] + bytes(11 * 1024 * 1024), 413)]
)
async def test_it_looks_at_what_came_before_it_brings_it(
    who: Chatter, sandbox: SandboxServer, site: Site, certificate: Path, body: bytes, status: int
) -> None:
    site.gives("/cat.png", body, content_type="image/png")
    plan = await plan_of(who, URL, URL)

    with pytest.raises(Problem) as caught:
        await Courier(plan.question.enclosures, guard_of(site, certificate)).bring(plan)

    assert (caught.value.status, caught.value.param) == (status, "input")


async def test_it_lets_go_when_nobody_waits_any_more(who: Chatter, sandbox: SandboxServer) -> None:
    content = {"type": "file", "file": {"file_id": await asyncio.to_thread(kept, who)}}
    visit = who.visit([{"role": "user", "content": [content]}], stream=True)
    await reading(sandbox)

    visit.leave()
    await visit.end()

    assert await in_thread(lambda: (who.spent, who.turn.state)) == ("0 0", "cancelled")
    assert [row["ending"] for row in await reading(sandbox, is_over=True)] == ["left"]


def kept(who: Chatter) -> str:
    """A file whose reading takes minutes."""
    file = ("a [sandbox:processing=waits].txt", b"words", "text/plain")
    return str(who.client.post("/v1/files", files={"file": file}).json()["id"])


async def reading(sandbox: SandboxServer, *, is_over: bool = False) -> list[dict[str, Any]]:
    """The requests for a reading, once there is one."""
    for _ in range(500):
        rows = await asyncio.to_thread(sandbox.web_requests, "/rest/sse/attachment_processing/subscribe")
        if rows and (rows[0]["ended_at"] is not None or not is_over):
            return rows
        await asyncio.sleep(0.02)
    raise AssertionError("nobody asked for a reading")
