"""What is left, read the direct way first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from proxy.models.accounts import WebAccount
from proxy.protocol.quota import Quota
from proxy.services import quota
from proxy.services.accounts import session_of
from tests.portal.people import all_at_once
from tests.proxy.accounts import account
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sandbox")]


def read(token: str, **fields: Any) -> WebAccount:
    mine = account(token=token, **fields)
    quota.read_accounts([mine])
    mine.refresh_from_db()
    return mine


def test_it_reads_directly_where_it_can(sandbox: SandboxServer) -> None:
    mine = read("sandbox-pro-a")

    assert (mine.remaining_pro, mine.remaining_research, mine.quota_way) == (600, 20, "direct")
    assert mine.quota_at is not None
    assert not sandbox.web_requests("/v1")


def test_it_asks_flaresolverr_where_cloudflare_stands(sandbox: SandboxServer) -> None:
    mine = read("sandbox-pro-gated-a")

    assert (mine.remaining_pro, mine.remaining_research, mine.quota_way) == (600, 20, "solver")
    assert sandbox.web_requests("/v1")


def test_it_leaves_the_counters_when_both_ways_fail() -> None:
    mine = read("sandbox-pro-gated-unsolved-a", remaining_pro=41)

    assert mine.remaining_pro == 41
    assert "challenge" in mine.quota_problem


def test_it_drops_a_reading_of_a_replaced_cookie() -> None:
    mine = account(token="sandbox-pro-a")
    session = session_of(mine)
    WebAccount.objects.update(jar_version=2, remaining_pro=None)

    quota._store(session, Quota(600, 20), WebAccount.Way.DIRECT, timezone.now())

    mine.refresh_from_db()
    assert mine.remaining_pro is None


@pytest.mark.django_db(transaction=True)
def test_two_beats_read_once_an_hour(sandbox: SandboxServer) -> None:
    account(quota_due_at=timezone.now() - timedelta(hours=1))

    assert sum(int(str(done)) for done in all_at_once(4, lambda _: quota.read_due())) == 1
    assert quota.read_due() == 0

    assert len(sandbox.web_requests("/rest/rate-limit/all")) == 1


@pytest.mark.parametrize(("minutes", "is_read"), [(4, False), (6, True)])
def test_it_is_read_again_when_somebody_looks_at_old_counters(minutes: int, is_read: bool) -> None:
    now = timezone.now()
    mine = account(quota_due_at=now - timedelta(minutes=minutes) + quota.EVERY)

    quota.refresh_stale()

    mine.refresh_from_db()
    assert (mine.quota_due_at <= timezone.now()) is is_read
