"""The pool as a whole: one account is well, one is blocked, one has expired (issue 3, item 3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest
from django.db import transaction
from pytest_django.fixtures import Settings

from portal.api.threads import run_in_database
from portal.services import network
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.protocol.delta import Done, Fault
from proxy.services import alerts, keepalive
from proxy.services.accounts import note_fault, note_success, session_of, take_account
from proxy.upstream.web import Session
from tests.portal.people import somebody
from tests.proxy.accounts import account, occupy
from tests.proxy.upstream.asked import asked
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def take(user_id: int) -> Session | None:
    with transaction.atomic():
        mine = take_account(tier_needed="pro", counted=True)
        if mine is None:
            return None
        occupy(mine, user_id)
    return session_of(mine)


def give_back(session: Session, last: Done | Fault) -> None:
    with transaction.atomic():
        if isinstance(last, Fault):
            note_fault(session.account_id, last, session.jar_version)
        else:
            note_success(session.account_id, counted=True)
        turn = ChatTurn.objects.filter(account_id=session.account_id, state="open").first()
        assert turn is not None
        turn.delete()


async def answer(user_id: int) -> str:
    """Take, ask, give back, until an answer has come; the name of the account that gave it."""
    while True:
        session = await run_in_database(partial(take, user_id))
        if session is None:
            await asyncio.sleep(0.05)
            continue
        told = await asked(session, "How do tides come about?", "gpt56_terra")
        await run_in_database(partial(give_back, session, told.last))
        if isinstance(told.last, Done):
            return session.name


def test_a_hundred_at_once_are_answered_and_only_the_expired_one_is_told_of(
    sandbox: SandboxServer, settings: Settings
) -> None:
    settings.NTFY_URL, settings.NTFY_TOPIC = sandbox.url, "operators"
    account("well", parallel_limit=20, priority=1)
    account("blocked", "sandbox-blocked-max-b")
    account("expired", "sandbox-expired-max-e")
    user = somebody()

    async def all_of_them() -> list[str]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(answer(user.pk) for _ in range(100)))

    assert Counter(network.call(all_of_them())) == {"well": 100}
    for _ in range(2):  # a beat's round, and the next
        keepalive.check_due()
        alerts.send_due()

    healths = dict(WebAccount.objects.values_list("name", "health"))
    assert healths == {"well": "active", "blocked": "blocked", "expired": "expired"}
    (message,) = sandbox.messages("operators")
    assert message["title"] == "A Perplexity session has expired"
    assert "expired" in message["message"]
    assert not ChatTurn.objects.exists()
