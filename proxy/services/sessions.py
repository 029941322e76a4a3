"""How cookies come in: pasted by an administrator, or from the environment. None ever goes out.

A cookie is shown to Perplexity before it replaces one that works; the call is made with no
transaction open, and what it says is written in one. A sandbox's cookie (`sandbox-…`) is only ever
shown to the sandbox, and any other only to Perplexity.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from portal.services import audit, network, upstreams
from portal.services.errors import Invalid
from portal.services.principal import Principal
from proxy.models.accounts import WebAccount
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.session import TOKEN, Jar, NotASession, SignedIn, import_jar, merge, token_of
from proxy.protocol.verdicts import EFFECTS
from proxy.services.accounts import seal_jar
from proxy.upstream import web

Health = WebAccount.Health
SANDBOX_TOKEN = "sandbox-max-portal"
_SANDBOX = "sandbox-"
ENVIRONMENT = "PPLX_COOKIE"
REFUSALS = frozenset({FaultKind.SIGNED_OUT, FaultKind.FORBIDDEN})
"""What the session endpoint says to a cookie that is no session (perplexity-web §3, §12)."""


class SessionRefused(Invalid):
    """The upstream did not take the cookie, or could not be asked; nothing was changed."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.is_dead = fault.kind in REFUSALS
        told = "Perplexity does not accept this session." if self.is_dead else EFFECTS[fault.kind].message
        super().__init__(f"{told} Nothing was changed.", "cookie")


@dataclass(frozen=True, slots=True)
class Checked:
    """A cookie, and what the upstream said to it. `jar` has what that answer rotated."""

    jar: Jar
    verdict: SignedIn | Fault
    sandbox: bool


def read_cookie(text: str) -> Jar:
    """What somebody pasted. Raises Invalid, with nothing of it in the message."""
    try:
        return import_jar(text)
    except NotASession as error:
        raise Invalid(str(error), "cookie") from None


def check_jar(jar: Jar) -> Checked:
    """Show a cookie to the upstream it belongs to. Raises Invalid where that must not be asked."""
    sandbox = token_of(jar).startswith(_SANDBOX)
    if sandbox and not upstreams.uses_sandbox():
        raise Invalid("This is a session of the sandbox, which this portal does not use.", "cookie")
    if not sandbox and settings.SONDE_UPSTREAM == "sandbox":
        raise Invalid("This portal is told to use the sandbox: its sessions begin with sandbox-.", "cookie")
    upstream = upstreams.sandbox_web() if sandbox else upstreams.live_web()
    if upstream is None:
        raise Invalid("The sandbox has not started yet.", "cookie")
    verdict, set_cookies = network.call(web.check(web.Session(0, "", "free", jar, 0, upstream)))
    if isinstance(verdict, SignedIn):
        jar = merge(jar, set_cookies)
    return Checked(jar, verdict, sandbox)


def put_cookie(
    text: str,
    *,
    account: WebAccount | None = None,
    new_name: str = "",
    actor: Principal | None = None,
) -> WebAccount:
    """Take over a pasted cookie once the upstream accepted it, and give the account that has it now.

    That is `account`, or a new one called `new_name`, or else the account of the same Perplexity
    user, or the first by priority, or a new one (SPEC 10.23). Raises Invalid and SessionRefused.
    """
    jar = read_cookie(text)
    checked = check_jar(jar)
    if isinstance(checked.verdict, Fault):
        raise SessionRefused(checked.verdict)
    if account is not None and account.jar and account.sandbox != checked.sandbox:
        raise Invalid("An account keeps to its upstream: make another one for this session.", "cookie")
    return _put(checked, checked.verdict, account, new_name, actor)


@transaction.atomic
def put_checked(
    checked: Checked, account: WebAccount, *, actor: Principal | None, tier_as_told: bool = False
) -> None:
    """Give `account` a cookie that `check_jar` found accepted; with `tier_as_told` its tier, too."""
    assert isinstance(checked.verdict, SignedIn)
    mine = _put(checked, checked.verdict, account, "", actor)
    if tier_as_told:
        mine.tier = checked.verdict.tier or settings.ACCOUNT_TYPE
        mine.save(update_fields=["tier"])


@transaction.atomic
def set_draining(account: WebAccount, draining: bool, *, actor: Principal | None) -> None:
    WebAccount.objects.filter(pk=account.pk).update(draining=draining)
    action = "web_account.draining" if draining else "web_account.resumed"
    audit.record(actor, action, f"web_account:{account.pk}", name=account.name)


def import_from_environment() -> None:
    """Take over PPLX_COOKIE when it is new; a changed one replaces the stored one only when accepted.

    Raises Invalid when it holds no session at all.
    """
    text = settings.PPLX_COOKIE
    if not text or settings.SONDE_UPSTREAM == "sandbox":
        return
    jar = read_cookie(text)
    digest = _digest(text)
    account = WebAccount.objects.exclude(imported_digest="").order_by("pk").first()
    if account is not None and account.imported_digest == digest:
        return
    _take_from_environment(account, check_jar(jar), digest)


def ensure_sandbox_account() -> None:
    """In the sandbox, chat works at once: there is one account, of the highest tier."""
    if not upstreams.uses_sandbox() or WebAccount.objects.filter(sandbox=True).exists():
        return
    try:
        with transaction.atomic():
            account = WebAccount.objects.create(
                name=_free_name("sandbox"), tier=WebAccount.Tier.MAX, sandbox=True, parallel_limit=64
            )
            _store(account, {TOKEN: SANDBOX_TOKEN}, timezone.now())
            account.save()
    except IntegrityError:
        return  # another process of the cluster was first


def has_live_account() -> bool:
    """Whether somebody gave a cookie of Perplexity, be it a refused one."""
    return WebAccount.objects.filter(sandbox=False).exists()


@transaction.atomic
def _put(
    checked: Checked, who: SignedIn, account: WebAccount | None, new_name: str, actor: Principal | None
) -> WebAccount:
    mine = _existing(checked, who, account, new_name) or _new(checked, who, new_name or _name_of(who))
    accept(mine, checked, who)
    mine.import_problem = ""
    mine.save()
    audit.record(actor, "web_account.session_replaced", f"web_account:{mine.pk}", name=mine.name)
    return mine


def _existing(
    checked: Checked, who: SignedIn, account: WebAccount | None, new_name: str
) -> WebAccount | None:
    if new_name:
        return None
    rows = WebAccount.objects.select_for_update(no_key=True)
    if account is not None:
        return rows.get(pk=account.pk)
    rows = rows.filter(sandbox=checked.sandbox)
    same = rows.filter(perplexity_user=who.user_id).first() if who.user_id else None
    return same or rows.first()


def _new(checked: Checked, who: SignedIn, name: str) -> WebAccount:
    tier = who.tier or settings.ACCOUNT_TYPE
    return WebAccount.objects.create(name=_free_name(name), tier=tier, sandbox=checked.sandbox)


def accept(account: WebAccount, checked: Checked, who: SignedIn) -> None:
    """A new, accepted cookie: what was known about the one before is forgotten. The caller saves."""
    now = timezone.now()
    _store(account, checked.jar, now)
    account.sandbox = checked.sandbox
    account.perplexity_user = who.user_id[:80]
    account.told_tier = who.tier or ""
    account.health, account.health_at, account.health_reason = Health.ACTIVE, now, ""
    account.faults, account.retry_at, account.alert_due_at = 0, None, None
    account.checked_at = now


def _store(account: WebAccount, jar: Jar, now: datetime) -> None:
    seal_jar(account, jar)
    account.jar_version += 1
    account.jar_changed_at, account.rotated_at = now, None
    account.remaining_pro = account.remaining_research = account.quota_at = None
    account.quota_problem = ""
    account.check_due_at = account.quota_due_at = now


@transaction.atomic
def _take_from_environment(account: WebAccount | None, checked: Checked, digest: str) -> None:
    """Store the environment's cookie, or why it is not stored. What works is replaced only by what was
    accepted; an undecided one is looked at again at the next start."""
    mine = (
        WebAccount.objects.select_for_update(no_key=True).get(pk=account.pk)
        if account is not None
        else WebAccount.objects.create(name=_free_name(ENVIRONMENT), tier=settings.ACCOUNT_TYPE)
    )
    verdict, had_one = checked.verdict, bool(mine.jar)
    if isinstance(verdict, SignedIn):
        accept(mine, checked, verdict)
        mine.import_problem = ""
    elif verdict.kind in REFUSALS:
        kept = "; the one before is still used" if had_one else ""
        mine.import_problem = f"Perplexity does not accept the session in {ENVIRONMENT}{kept}"
    elif had_one:
        mine.import_problem = (
            f"the new session in {ENVIRONMENT} could not be checked; the one before is still used"
        )
    else:
        _store(mine, checked.jar, timezone.now())
    if isinstance(verdict, SignedIn) or verdict.kind in REFUSALS or not had_one:
        mine.imported_digest = digest
    mine.save()
    audit.record(None, "web_account.imported", f"web_account:{mine.pk}", problem=mine.import_problem)


def _digest(text: str) -> str:
    return salted_hmac("proxy.sessions", text, algorithm="sha256").hexdigest()


def _name_of(who: SignedIn) -> str:
    return who.email or "Perplexity"


def _free_name(wanted: str) -> str:
    """`wanted`, or with a number behind it."""
    names = set(WebAccount.objects.values_list("name", flat=True))
    candidates = [wanted[:55], *(f"{wanted[:55]} {number}" for number in range(2, len(names) + 3))]
    return next(name for name in candidates if name not in names)
