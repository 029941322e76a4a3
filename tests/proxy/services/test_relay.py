"""The engine between the accounts: failover, continuation, rotated cookies, waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.doors import doors
from portal.services.ledger_check import check
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn, Continuation
from proxy.protocol.chat import parse_chat
from proxy.protocol.delta import Done, Text
from proxy.services import continuity, leases, relay, settling
from proxy.services.chat import move_turn, open_chat
from proxy.services.threads import in_thread
from tests.portal.people import all_at_once
from tests.proxy.accounts import account, occupy, token
from tests.proxy.chatting import PATH, Chatter, chatter, error_of, request, say, text_of
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture
def who() -> Chatter:
    return chatter()


def asked(sandbox: SandboxServer) -> list[str]:
    """The accounts that were asked, in order."""
    return [row["account"] for row in reversed(sandbox.web_requests("/rest/sse/perplexity_ask"))]


def fresh(row: WebAccount) -> WebAccount:
    return WebAccount.objects.get(pk=row.pk)


def turns(*said: str) -> list[dict[str, str]]:
    return [
        {"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(said)
    ]


def many(
    who: Chatter, number: int, said: str = "Why? [sandbox:duration=0.3]", **fields: Any
) -> list[httpx.Response]:
    async def all_at_once() -> list[httpx.Response]:
        transport = httpx.ASGITransport(doors)
        headers = {"Authorization": f"Bearer {who.key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
            asks = (client.post(PATH, json=request(said, **fields), timeout=120) for _ in range(number))
            return await asyncio.gather(*asks)

    return asyncio.run(all_at_once())


@pytest.mark.parametrize(
    "ill", ["blocked", "expired", "busy", "limited", "walled", "forbidden", "challenged"]
)
def test_it_asks_another_account_before_the_first_token(
    sandbox: SandboxServer, who: Chatter, ill: str
) -> None:
    account("ill", f"sandbox-{ill}-max-ill", priority=0)
    account("well", priority=1)

    answer = who.chat(stream=True)

    assert answer.status_code == 200
    assert answer.content.endswith(b"data: [DONE]\n\n")
    assert asked(sandbox)[-1] == "sandbox-max-well"
    assert who.spent == "0.1 0"
    assert who.turn.account == WebAccount.objects.get(name="well")


def test_it_notes_what_each_failed_attempt_says_about_its_account(who: Chatter) -> None:
    blocked = account("a", "sandbox-blocked-max-a")
    expired = account("b", "sandbox-expired-max-b", priority=1)
    well = account("c", priority=2)

    assert who.chat().status_code == 200

    assert fresh(blocked).health == "blocked"
    assert fresh(expired).check_due_at <= timezone.now()
    assert (fresh(well).health, fresh(well).succeeded_at is not None) == ("active", True)


def test_it_does_not_try_elsewhere_what_no_account_can_cure(sandbox: SandboxServer, who: Chatter) -> None:
    account("one")
    account("two")

    assert error_of(who.chat("Why? [sandbox:web.invalid]"))[0] == 502

    assert len(asked(sandbox)) == 1


def test_it_passes_over_an_account_whose_cookies_cannot_be_opened(who: Chatter) -> None:
    account("closed", jar="sealed by a key that is gone", priority=0)
    refused = who.chat()
    account("well", priority=1)

    assert error_of(refused)[:2] == (503, "server_error")
    assert "see manage.py doctor" in refused.json()["error"]["message"]
    assert who.chat().status_code == 200
    assert who.spent == "0.1 0"


@pytest.mark.parametrize(("breaks", "status"), [(1, 200), (2, 502)])
def test_it_asks_its_only_account_once_more_when_the_connection_broke(
    sandbox: SandboxServer, who: Chatter, breaks: int, status: int
) -> None:
    account("blocked", "sandbox-blocked-max-b", priority=0)
    account("well", priority=1)

    answer = who.chat(f"Why? [sandbox:web.cut={breaks}]")

    assert answer.status_code == status
    assert asked(sandbox)[-2:] == ["sandbox-max-well"] * 2
    assert who.spent == ("0.1 0" if status == 200 else "0 0")


def test_it_asks_its_account_once_more_when_all_others_stay_busy(
    sandbox: SandboxServer, who: Chatter, settings: Settings
) -> None:
    settings.CHAT_WAIT_SECONDS = 0.2
    account("well", priority=0)
    occupy(account("full", priority=1, parallel_limit=1), who.user.pk)

    assert who.chat("Why? [sandbox:web.cut=1]").status_code == 200
    assert asked(sandbox) == ["sandbox-max-well"] * 2


def test_it_does_not_try_elsewhere_after_the_first_token(sandbox: SandboxServer, who: Chatter) -> None:
    account("one")
    account("two")

    answer = who.chat("Why? [sandbox:cut-stream=12] [sandbox:pieces=12]", stream=True)

    assert b'"error"' in answer.content
    assert len(asked(sandbox)) == 1


def test_it_says_429_for_quota_only_when_no_account_has_any_left(who: Chatter) -> None:
    account("used", "sandbox-limited-max-used")

    assert error_of(who.chat())[3] == "insufficient_quota"

    account("down", health="blocked", retry_at=timezone.now() + timedelta(minutes=5))
    assert error_of(who.chat())[:2] == (503, "server_error")


def test_it_tells_each_line_once_whichever_account_told_it(who: Chatter) -> None:
    account("one")
    account("two")

    answer = who.chat("Why? [sandbox:web.error-stream=4=1] [sandbox:thinking]", stream=True)

    lines = [line for line in answer.text.split("\n") if "reasoning_content" in line]
    assert len(lines) == len(set(lines))


def test_it_continues_the_thread_of_the_same_conversation(sandbox: SandboxServer, who: Chatter) -> None:
    account("one")
    account("two")
    first = who.chat(f"What is first? {say('One.')}", stream=True)
    said = text_of(first.content)

    who.chat(turns(f"What is first? {say('One.')}", said, "And then?"))

    before, after = reversed(sandbox.web_entries())
    params = after["body"]["params"]
    assert after["body"]["query_str"] == "And then?"
    assert params["last_backend_uuid"] == before["id"]
    assert params["query_source"] == "followup"
    assert params["read_write_token"]
    assert after["account"] == before["account"]
    assert "One." not in Continuation.objects.latest("used_at").thread


def test_it_never_continues_a_thread_of_somebody_else(sandbox: SandboxServer, who: Chatter) -> None:
    account("one")
    said = text_of(who.chat("What is first?", stream=True).content)
    history = turns("What is first?", said, "And then?")

    chatter().chat(history)
    who.chat(history, language="de-DE")
    who.chat(history, model="sonar")
    who.chat(history, sources=["scholar"])
    who.chat([{"role": "system", "content": "Reply in English"}, *history])

    follows = [row["body"]["params"]["last_backend_uuid"] for row in sandbox.web_entries()]
    assert follows == [None] * 6


def test_it_forgets_threads_after_an_hour(sandbox: SandboxServer, who: Chatter) -> None:
    account("one")
    said = text_of(who.chat("What is first?", stream=True).content)
    Continuation.objects.update(used_at=timezone.now() - timedelta(minutes=61))

    who.chat(turns("What is first?", said, "And then?"))

    assert sandbox.web_entries()[0]["body"]["params"]["last_backend_uuid"] is None
    assert continuity.forget_old_threads() == 1


@pytest.mark.parametrize("refusal", ["400", "403", "404", "422", "failed"])
def test_it_asks_once_more_with_everything_when_a_thread_is_refused(
    sandbox: SandboxServer, who: Chatter, refusal: str
) -> None:
    one = account("one")
    account("two")
    said = text_of(who.chat("What is first?", stream=True).content)

    answer = who.chat(turns("What is first?", said, f"And then? [sandbox:forget={refusal}]"))

    assert answer.status_code == 200
    entry = sandbox.web_entries()[0]["body"]
    assert entry["params"]["last_backend_uuid"] is None
    assert "What is first?" in entry["query_str"]
    assert (who.spent, fresh(one).faults) == ("0.2 0", 0)


def test_it_keeps_a_session_alive_that_is_rotated_by_every_answer(who: Chatter) -> None:
    restless = account("r", "sandbox-rotating3-restless-max-r", parallel_limit=30)

    answers = many(who, 30)

    assert Counter(answer.status_code for answer in answers) == {200: 30}
    assert token(restless) != "sandbox-rotating3-restless-max-r"
    assert who.chat().status_code == 200


@pytest.mark.slow
def test_it_gives_a_hundred_chats_an_answer_while_one_account_of_three_is_well(
    sandbox: SandboxServer,
) -> None:
    who = chatter(credits=20)
    account("blocked", "sandbox-blocked-max-b", parallel_limit=100)
    account("expired", "sandbox-expired-max-e", parallel_limit=100)
    account("well", parallel_limit=100)

    answers = many(who, 100, stream=True)

    assert Counter(answer.status_code for answer in answers) == {200: 100}
    assert all(answer.content.endswith(b"[DONE]\n\n") for answer in answers)
    assert ChatTurn.objects.filter(state="delivered", account__name="well").count() == 100
    assert check() == []


def test_it_waits_for_a_place_when_all_are_taken(sandbox: SandboxServer, who: Chatter) -> None:
    account("one", parallel_limit=2)

    answers = many(who, 8)

    assert Counter(answer.status_code for answer in answers) == {200: 8}
    assert max(row["peak"] for row in sandbox.web()["accounts"]) <= 3


def test_it_says_busy_when_no_place_became_free(who: Chatter, settings: Settings) -> None:
    settings.CHAT_WAIT_SECONDS = 0.3
    occupy(account("one", parallel_limit=1), who.user.pk)

    answer = who.chat()

    assert error_of(answer)[:2] == (503, "server_error")
    assert answer.headers["retry-after"] == "2"
    assert who.spent == "0 0"


def test_it_frees_the_place_of_a_process_that_died(who: Chatter) -> None:
    occupy(account("one", parallel_limit=1), who.user.pk)
    ChatTurn.objects.update(lease_until=timezone.now() - timedelta(seconds=1))

    assert who.chat().status_code == 200


def test_it_closes_what_a_dead_process_left_open(who: Chatter) -> None:
    account("one")
    plan = open_chat(who.principal, parse_chat(request("Why?"), "gpt"), "api")
    assert (who.spent, settling.sweep_turns()) == ("0 0.1", 0)

    leases.end_all_leases()

    assert settling.sweep_turns() == 1
    assert settling.sweep_turns() == 0
    assert (who.spent, who.turn.state) == ("0 0", "failed")
    # A zombie that comes back changes nothing any more.
    settling.settle(plan, settling.Outcome(delivered=True, done=Done("x")))
    assert (who.spent, who.turn.state) == ("0 0", "failed")


def test_it_moves_no_turn_that_a_worker_took_over_meanwhile(who: Chatter) -> None:
    first = account("first", priority=0)
    account("other", priority=1)
    plan = open_chat(who.principal, parse_chat(request("Why?"), "gpt"), "api")
    leases.end_all_leases()
    ChatTurn.objects.update(door="worker")

    assert move_turn(plan, None, [first.pk]).session.account_id != first.pk

    assert who.turn.account == first
    assert ChatTurn.objects.filter(lease_until__lt=timezone.now()).exists()


async def hold(who: Chatter) -> None:
    plan = await in_thread(
        lambda: open_chat(who.principal, parse_chat(request("Why? [sandbox:duration=1]"), "gpt"), "api")
    )
    engine = relay.Relay(plan.question, plan, streams=True)
    async with aclosing(engine.deltas()) as reads:
        async for deltas in reads:
            if any(isinstance(delta, Text) for delta in deltas):
                await in_thread(lambda: ChatTurn.objects.update(lease_until=timezone.now()))
                await asyncio.sleep(0.3)
                await in_thread(lambda: ChatTurn.objects.get(state="open", lease_until__gt=timezone.now()))
                return


def test_it_renews_the_leases_of_all_but_those_that_somebody_is_ending(who: Chatter) -> None:
    mine = account()
    occupy(mine, who.user.pk, 2)
    ending, other = ChatTurn.objects.order_by("created_at")
    before = ending.lease_until, other.lease_until
    with transaction.atomic():
        list(ChatTurn.objects.select_for_update().filter(pk=ending.pk))
        if connection.features.has_select_for_update_skip_locked:
            all_at_once(1, lambda _: leases.renew([ending.pk, other.pk]))
        else:
            leases.renew([other.pk])

    ending.refresh_from_db()
    other.refresh_from_db()
    assert (ending.lease_until == before[0], other.lease_until == before[1]) == (True, False)


def test_it_renews_the_lease_while_it_answers(who: Chatter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.05)
    account("one")

    asyncio.run(hold(who))

    assert (who.spent, who.turn.state) == ("0.1 0", "cancelled")


def test_it_uses_a_connection_again(sandbox: SandboxServer, who: Chatter) -> None:
    account("one", parallel_limit=1)

    async def twice() -> list[int]:
        transport = httpx.ASGITransport(doors)
        headers = {"Authorization": f"Bearer {who.key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
            return [(await client.post(PATH, json=request("Why?"), timeout=60)).status_code for _ in range(2)]

    assert asyncio.run(twice()) == [200, 200]
    assert {row["ending"] for row in sandbox.web_requests("/rest/sse/perplexity_ask")} == {"done"}
