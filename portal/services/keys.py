"""API keys: made, rotated, revoked, and proved (SPEC 2.2).

The secret is shown once and kept only as HMAC-SHA256 under a pepper derived from SECRET_KEY: 256
random bits need no slow hash, and a stolen database opens nothing. Whoever changes SECRET_KEY ends
every key. Who it speaks for is remembered for half a second at the doors of chat (key_memory).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from decimal import Decimal
from ipaddress import IPv6Network, ip_address, ip_network

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from portal.models.fields import MOST, is_amount
from portal.models.keys import ApiKey, ClientProfile, PromptPolicy, Scope
from portal.models.users import User
from portal.services import audit, key_memory
from portal.services.errors import Invalid
from portal.services.names import is_fit
from portal.services.principal import ChatTerms, Principal
from portal.wire.errors import Forbidden
from portal.wire.ids import KeyText, new_key, parse_key

DEFAULT_SCOPES = (Scope.RESEARCH.value, Scope.CHAT.value, Scope.FILES.value, Scope.MCP.value)
IMPORTED_NAME = "PPLX_PROXY_API_KEY"
IMPORTED_LENGTH = 16
"""Shortest key that may be imported: it is chosen by people, not by us."""
LONGEST = 512
USE_IS_NOTED_EVERY = timedelta(minutes=1)
MOST_NETWORKS = 100
"""Every request of the key looks through them."""
MAPPED = 96
"""Bits before the IPv4 address in an IPv6 one (::ffff:0:0/96)."""
NO_DIGEST = "0" * 64


@transaction.atomic
def create_key(
    user: User,
    *,
    name: str,
    scopes: Collection[str] = DEFAULT_SCOPES,
    expires_at: datetime | None = None,
    networks: Collection[str] = (),
    monthly_cap: Decimal | None = None,
    requests_per_minute: int | None = None,
    parallel_runs: int | None = None,
    chats_per_day: int | None = None,
    prompt_policy: str = PromptPolicy.FILTER,
    client_profile: str = ClientProfile.DETECT,
    sources_footer: bool = False,
    actor: Principal | None = None,
) -> tuple[ApiKey, str]:
    """A new key, and its text, which is shown now and never again. Raises Invalid."""
    _check_limits(
        monthly_cap=monthly_cap,
        requests_per_minute=requests_per_minute,
        parallel_runs=parallel_runs,
        chats_per_day=chats_per_day,
    )
    text = new_key()
    key = ApiKey(
        user=user,
        name=checked_name(name),
        public_id=text.public_id,
        digest=_digest(text.secret),
        scopes=checked_scopes(scopes, user),
        expires_at=checked_expiry(expires_at),
        networks=checked_networks(networks),
        monthly_cap=monthly_cap,
        requests_per_minute=requests_per_minute,
        parallel_runs=parallel_runs,
        chats_per_day=chats_per_day,
        prompt_policy=PromptPolicy(prompt_policy),
        client_profile=ClientProfile(client_profile),
        sources_footer=sources_footer,
    )
    key.save(force_insert=True)
    audit.record(actor, "key.created", _target(key), name=key.name, user=user.email, scopes=key.scopes)
    return key, str(text)


@transaction.atomic
def rotate_key(key: ApiKey, *, actor: Principal | None = None) -> tuple[ApiKey, str]:
    """A new key with the same rights; the old one stops at once. Raises Invalid when revoked."""
    if not revoke_key(key, actor=actor):
        raise Invalid("this key is revoked: make a new one")
    text = new_key()
    fresh = ApiKey(
        user_id=key.user_id,
        name=key.name,
        public_id=text.public_id,
        digest=_digest(text.secret),
        scopes=key.scopes,
        expires_at=key.expires_at,
        networks=key.networks,
        monthly_cap=key.monthly_cap,
        requests_per_minute=key.requests_per_minute,
        parallel_runs=key.parallel_runs,
        chats_per_day=key.chats_per_day,
        prompt_policy=key.prompt_policy,
        client_profile=key.client_profile,
        sources_footer=key.sources_footer,
    )
    fresh.save(force_insert=True)
    audit.record(actor, "key.rotated", _target(fresh), before=_target(key))
    return fresh, str(text)


@transaction.atomic
def revoke_key(key: ApiKey, *, actor: Principal | None = None) -> bool:
    """Stop a key at once and for good. False when it was revoked before."""
    now = timezone.now()
    if not ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
        return False
    key.revoked_at = now
    transaction.on_commit(key_memory.forget_all)
    audit.record(actor, "key.revoked", _target(key), name=key.name)
    return True


@transaction.atomic
def import_key(user: User, text: str) -> ApiKey:
    """The key that the operator chose (PPLX_PROXY_API_KEY). It stands alone: another one ends the
    one before, and may later give way to it again; one that people revoked stays revoked.

    Raises Invalid.
    """
    plain = text.isascii() and text.isprintable() and " " not in text
    if not plain or not IMPORTED_LENGTH <= len(text) <= LONGEST:
        raise Invalid(f"{IMPORTED_NAME}: must be {IMPORTED_LENGTH} to {LONGEST} characters without spaces")
    proof = _proof(text)
    known = ApiKey.objects.filter(public_id=proof.public_id).first()
    if known is not None and not constant_time_compare(known.digest, _digest(proof.secret)):
        raise Invalid(f"{IMPORTED_NAME}: has the public part of another key")
    replaced = _end_imported(user, but=proof.public_id)
    if known is None:
        return _import_new(user, proof)
    if known.revoked_at is not None and replaced:
        ApiKey.objects.filter(pk=known.pk).update(revoked_at=None)
        audit.record(None, "key.imported", _target(known), user=user.email)
    return known


def authenticate_key(text: str, address: str | None, request_id: str = "") -> Principal | None:
    """Whom a key speaks for; None for a missing, unknown, revoked, expired or misplaced one.

    One query. Raises Forbidden when the key is right but its user is disabled.
    """
    if len(text) > LONGEST:
        return None
    proof, asked_at = _proof(text), key_memory.moment()
    key = ApiKey.objects.select_related("user").filter(public_id=proof.public_id).first()
    # Unknown ids take as long as known ones.
    proved = constant_time_compare(_digest(proof.secret), key.digest if key else NO_DIGEST)
    now = timezone.now()
    if key is None or not proved or not _is_open(key, address, now):
        return None
    if not key.user.is_active:
        raise Forbidden("This user is disabled.")
    _note_use(key, now)
    principal = _speaks_for(key, address, request_id)
    if not key.networks:
        key_memory.remember(text, principal, key.expires_at, asked_at)
    return principal


def checked_name(name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= 80 or not is_fit(name):
        raise Invalid("a key needs a name of 1 to 80 characters", "name")
    return name


def checked_scopes(scopes: Collection[str], user: User) -> list[str]:
    unknown = sorted(set(scopes) - set(Scope.values))
    if unknown:
        raise Invalid(f"unknown scope {unknown[0]}: choose from {', '.join(Scope.values)}", "scopes")
    if not scopes:
        raise Invalid("a key needs at least one scope", "scopes")
    if Scope.ADMIN in scopes and not user.is_staff:
        raise Invalid("the scope admin is for keys of admins", "scopes")
    return [scope for scope in Scope.values if scope in scopes]


def checked_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is None:
        return None
    if timezone.is_naive(expires_at):
        raise Invalid("the expiry needs a time zone, such as 2027-01-31T12:00:00Z", "expires_at")
    if expires_at <= timezone.now():
        raise Invalid("the expiry is in the past", "expires_at")
    return expires_at


def checked_networks(networks: Collection[str]) -> list[str]:
    if len(networks) > MOST_NETWORKS:
        raise Invalid(f"a key has at most {MOST_NETWORKS} addresses and networks", "networks")
    return list(dict.fromkeys(_checked_network(network.strip()) for network in networks))


def _checked_network(text: str) -> str:
    """As client addresses are written: without a zone, and an IPv4 network in IPv6 as that network."""
    try:
        network = ip_network(text.partition("%")[0], strict=False)
    except ValueError:
        raise Invalid(
            f"{text!r} is neither an address nor a network: write 192.0.2.7 or 192.0.2.0/24", "networks"
        ) from None
    if isinstance(network, IPv6Network) and network.prefixlen >= MAPPED:
        inner = network.network_address.ipv4_mapped
        return f"{inner}/{network.prefixlen - MAPPED}" if inner is not None else str(network)
    return str(network)


def _check_limits(**limits: Decimal | int | None) -> None:
    for field, limit in limits.items():
        if limit is not None and not (is_amount(Decimal(limit)) and limit >= 0):
            raise Invalid(f"{field.replace('_', ' ')} must be a number from 0 to {MOST:f}", field)


def _proof(text: str) -> KeyText:
    """The public id that finds a key and the secret that proves it; a key in another form than
    ours was imported, and is found by its own digest."""
    return parse_key(text) or KeyText(f"env-{_digest(text, 'portal.keys.imported')[:20]}", text)


def _digest(secret: str, salt: str = "portal.keys") -> str:
    return salted_hmac(salt, secret, algorithm="sha256").hexdigest()


def _end_imported(user: User, *, but: str) -> int:
    """Revoke what was imported before; how many those were."""
    others = ApiKey.objects.filter(name=IMPORTED_NAME, user=user, revoked_at=None).exclude(public_id=but)
    return sum(revoke_key(other) for other in others)


def _import_new(user: User, proof: KeyText) -> ApiKey:
    key = ApiKey.objects.create(
        user=user,
        name=IMPORTED_NAME,
        public_id=proof.public_id,
        digest=_digest(proof.secret),
        scopes=[*DEFAULT_SCOPES, Scope.ADMIN.value] if user.is_staff else [*DEFAULT_SCOPES],
    )
    audit.record(None, "key.imported", _target(key), user=user.email)
    return key


def _target(key: ApiKey) -> str:
    return f"key:{key.public_id}"


def _is_open(key: ApiKey, address: str | None, now: datetime) -> bool:
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        return False
    if not key.networks:
        return True
    if address is None:
        return False
    return any(ip_address(address) in ip_network(network) for network in key.networks)


def _note_use(key: ApiKey, now: datetime) -> None:
    """At most once a minute, so that reading stays reading."""
    before = now - USE_IS_NOTED_EVERY
    if key.last_used_at is None or key.last_used_at < before:
        stale = Q(last_used_at=None) | Q(last_used_at__lt=before)
        ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)


def _speaks_for(key: ApiKey, address: str | None, request_id: str) -> Principal:
    scopes = frozenset(key.scopes) if key.user.is_staff else frozenset(key.scopes) - {Scope.ADMIN.value}
    return Principal(
        user_id=key.user_id,
        scopes=scopes,
        # A key without the scope has no rights of an admin, whoever it belongs to.
        is_staff=Scope.ADMIN.value in scopes,
        key_id=key.pk,
        key_public_id=key.public_id,
        address=address,
        request_id=request_id,
        user_limit=key.user.requests_per_minute,
        key_limit=key.requests_per_minute,
        capped=key.monthly_cap is not None,
        chat=ChatTerms(
            prompt_policy=key.prompt_policy,
            client=key.client_profile,
            sources_footer=key.sources_footer,
            key_daily=key.chats_per_day,
            user_daily=key.user.chats_per_day,
        ),
    )
