"""Leader-safe appointments: of two beats that find the same work due, one does it.

Due times stand in the database. Whoever moves one ahead from the value it read has the work until
the new time; when its process dies, the work is due again then (STACK §4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.utils import timezone

from proxy.models.accounts import Duty, WebAccount

LEASE = timedelta(minutes=3)


def claim_accounts(field: str, accounts: Iterable[WebAccount], lease: timedelta = LEASE) -> list[WebAccount]:
    """Those of `accounts`, due by `field`, that this process now has the work of."""
    until = timezone.now() + lease
    mine = []
    for account in accounts:
        same = WebAccount.objects.filter(pk=account.pk, **{field: getattr(account, field)})
        if same.update(**{field: until}):
            setattr(account, field, until)
            mine.append(account)
    return mine


def claim(name: str, every: timedelta, lease: timedelta = LEASE) -> datetime | None:
    """The lease's end, a token for `finish`, when the duty was due; it is first due after one interval."""
    now = timezone.now()
    duty, made = Duty.objects.get_or_create(name=name, defaults={"due_at": now + every})
    if made or duty.due_at > now:
        return None
    until = now + lease
    return until if Duty.objects.filter(pk=name, due_at=duty.due_at).update(due_at=until) else None


def finish(name: str, until: datetime, every: timedelta) -> None:
    """Make the next appointment, unless the lease ran out and somebody else has the work."""
    Duty.objects.filter(pk=name, due_at=until).update(due_at=timezone.now() + every)
