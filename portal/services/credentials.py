"""Upstream credentials: imported from the environment, sealed, checked before they replace one.

A value that was refused is remembered by a keyed digest, so that it is not tried again at every
start; one that could not be checked is tried again at the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from portal.http import HTTPError, InvalidURL, async_client
from portal.models.system import Credential
from portal.services import audit, network, sealing
from portal.services.principal import Principal

PERPLEXITY_API_KEY = "PERPLEXITY_API_KEY"
CHECK_SECONDS = 5.0
Standing = Credential.Standing


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the upstream said to a credential; `problem` is one line for people, without it."""

    standing: Credential.Standing
    problem: str = ""


def read(name: str) -> str | None:
    """The stored credential; None when there is none. Errors: sealing.SealError."""
    row = find(name)
    return sealing.unseal(row, "sealed") if row is not None and row.sealed else None


def find(name: str) -> Credential | None:
    """The row, still sealed. There is one as soon as somebody gave a credential, be it a refused one."""
    return Credential.objects.filter(name=name).first()


def import_from_environment() -> None:
    """Take over PERPLEXITY_API_KEY when it is new; asks the upstream, outside any transaction.

    Errors: sealing.SealError when the stored one cannot be opened.
    """
    value = settings.PERPLEXITY_API_KEY
    if value and _wants_a_look(value):
        verdict = network.call(check_api_key(settings.PERPLEXITY_BASE_URL, value))
        _take(value, verdict)


@transaction.atomic
def remove(row: Credential, *, actor: Principal | None) -> None:
    """Forget a stored credential. One that is still in the environment is taken over at the next start."""
    audit.record(actor, "credential.removed", f"credential:{row.name}", hint=row.hint)
    row.delete()


async def check_api_key(base_url: str, key: str) -> Verdict:
    """Ask the upstream for its models, which costs nothing and needs a key (perplexity-api §6).

    Only a 401 condemns a key: a 403 has causes that lie elsewhere (perplexity-api §0.4).
    """
    async with async_client(base_url, timeout=CHECK_SECONDS) as client:
        try:
            answer = await client.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
        except (HTTPError, InvalidURL, ValueError) as error:
            reason = f"{base_url} cannot be reached ({type(error).__name__})"
            return Verdict(Standing.UNCHECKED, f"could not be checked: {reason}")
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        return Verdict(Standing.REFUSED, f"was refused by {base_url}")
    if answer.is_success:
        return Verdict(Standing.ACCEPTED)
    return Verdict(Standing.UNCHECKED, f"could not be checked: {base_url} answered {answer.status_code}")


def _wants_a_look(value: str) -> bool:
    row = find(PERPLEXITY_API_KEY)
    if row is None:
        return True
    if row.sealed and sealing.unseal(row, "sealed") == value:
        return row.standing == Standing.UNCHECKED or row.problem != ""
    return row.imported_digest != _digest(value)


@transaction.atomic
def _take(value: str, verdict: Verdict) -> None:
    """Store a value, or why it is not stored. What works is replaced only by what was accepted."""
    row, _ = Credential.objects.select_for_update(no_key=True).get_or_create(name=PERPLEXITY_API_KEY)
    before = sealing.unseal(row, "sealed") if row.sealed else ""
    wanted = {Standing.ACCEPTED} if before else {Standing.ACCEPTED, Standing.UNCHECKED}
    if before == value or verdict.standing in wanted:
        _store(row, value, verdict)
    elif before:
        row.problem = f"the new value in the environment {verdict.problem}; the one before is still used"
    else:
        row.standing, row.problem = verdict.standing, verdict.problem
    if verdict.standing != Standing.UNCHECKED:
        row.imported_digest = _digest(value)
    row.save()


def _store(row: Credential, value: str, verdict: Verdict) -> None:
    row.sealed = sealing.seal(value, row, "sealed")
    row.hint = value[-4:]
    row.standing, row.problem, row.checked_at = verdict.standing, verdict.problem, timezone.now()
    audit.record(None, "credential.imported", f"credential:{row.name}", standing=row.standing)


def _digest(value: str) -> str:
    return salted_hmac("portal.credentials", value, algorithm="sha256").hexdigest()
