"""What `manage.py doctor` looks at: is it configured, does it answer, is it right."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connection
from django.utils import timezone
from redis import Redis, RedisError

from portal.data_folder import Holder, holder_of
from portal.http import HTTPError, Response, async_client
from portal.models.system import Credential, Heartbeat
from portal.models.users import User
from portal.running.secrets import holding, sealed_places
from portal.services import ledger_guard, network, notify, sealing, tables, upstreams
from portal.wire.redact import redact
from portal.wire.version import VERSION
from proxy.models.accounts import WebAccount
from proxy.services.accounts import pool
from research.backends.table import is_set_up
from research.models.presets import Preset

PATIENCE = 5.0
"""Seconds any answer may take."""
MOST_SKEW = 5.0
SWEEPER_SILENCE = timedelta(seconds=10)
LEAST_DISK, LITTLE_DISK = 256 * 2**20, 2 * 2**30
SECRET_FILES = ("secret.key", "encryption.keys", "sonde.sqlite3")


class Verdict(StrEnum):
    OK = "ok"
    HINT = "hint"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    topic: str
    text: str


Findings = Iterator[tuple[Verdict, str]]


def check_up() -> Iterator[Finding]:
    """Every finding, in the order in which a start would meet them."""
    for topic, look in LOOKS.items():
        try:
            for verdict, text in look():
                yield Finding(verdict, topic, redact(text))
        except Exception as error:  # one broken look must not hide the others
            reason = " ".join(redact(str(error)).split()) or type(error).__name__
            yield Finding(Verdict.WRONG, topic, f"cannot be told: {reason}")


def mode() -> Findings:
    yield Verdict.OK, f"Sonde {VERSION}, {settings.SONDE_MODE}"


def data_folder() -> Findings:
    folder = Path(settings.DATA_DIR)
    if not os.access(folder, os.W_OK):
        yield Verdict.WRONG, f"{folder} cannot be written"
    yield Verdict.OK, f"{folder}{', in use by a running portal' if _holder() else ''}"
    for path in (folder, *(folder / name for name in SECRET_FILES)):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077 and not _is_sheltered(path, folder):
            wanted = "700" if path.is_dir() else "600"
            yield Verdict.WRONG, f"others may read {path}: chmod {wanted} {path}"


def database() -> Findings:
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        yield Verdict.OK, f"SQLite {sqlite3.sqlite_version} in {connection.settings_dict['NAME']}"
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version'), extract(epoch FROM clock_timestamp())")
        version, clock = cursor.fetchone()
    where = f"{connection.settings_dict['HOST']}/{connection.settings_dict['NAME']}"
    yield Verdict.OK, f"PostgreSQL {version} at {where}"
    yield from _judge_clock("the database", float(clock))


def migrations() -> Findings:
    if not tables.are_current():
        yield Verdict.WRONG, "are pending: start the portal once, or run manage.py migrate"
    else:
        yield Verdict.OK, "all applied"


def triggers() -> Findings:
    missing = ledger_guard.missing()
    if missing:
        yield Verdict.WRONG, f"nothing guards {', '.join(missing)}: start the portal once"
    else:
        yield Verdict.OK, "ledger and audit log cannot be changed"


def people() -> Findings:
    admins = User.objects.filter(is_staff=True, is_active=True).count()
    if admins:
        yield (
            Verdict.OK,
            f"active: {User.objects.filter(is_active=True).count()}, admins among them: {admins}",
        )
    else:
        yield Verdict.WRONG, "there is no active admin: manage.py create_user EMAIL --admin"


def broker() -> Findings:
    if not settings.CLUSTER:
        yield Verdict.OK, "in the process"
        return
    try:
        with Redis.from_url(
            settings.REDIS_URL, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE
        ) as redis:
            version = redis.info("server").get("redis_version")
            policy = redis.info("memory").get("maxmemory_policy")
    except RedisError as error:
        yield Verdict.WRONG, f"REDIS_URL does not answer: {error}"
        return
    yield Verdict.OK, f"Redis protocol {version}"
    if policy != "noeviction":
        yield Verdict.HINT, f"maxmemory-policy is {policy}: messages may be dropped; noeviction keeps them"


def channel_layer() -> Findings:
    if not settings.CLUSTER:
        yield Verdict.OK, "in the process"
        return
    seconds = network.call(_round_trip())
    yield Verdict.OK, f"a message came back after {seconds * 1000:.0f} ms"


def sweeper() -> Findings:
    last = Heartbeat.objects.filter(name="sweeper").values_list("at", flat=True).first()
    age = None if last is None else timezone.now() - last
    if age is not None and age < SWEEPER_SILENCE:
        yield Verdict.OK, "sweeps"
    elif settings.CLUSTER or _holder():
        seen = "never" if last is None else f"last at {last:%Y-%m-%d %H:%M:%S} UTC"
        yield Verdict.WRONG, f"is silent ({seen}): is a worker running, and a beat?"
    else:
        yield Verdict.HINT, "the portal is not running"


def encryption() -> Findings:
    """Every sealed secret opens, and is sealed with the first key."""
    secrets = old = 0
    for model, field, pk in sealed_places():
        row = holding(model, field).filter(pk=pk).first()
        if row is None:
            continue  # it went meanwhile
        secrets, old = secrets + 1, old + (not sealing.is_current(getattr(row, field)))
        try:
            sealing.unseal(row, field)
        except sealing.SealError as error:
            yield Verdict.WRONG, str(error)
    if old:
        yield (
            Verdict.HINT,
            f"sealed with a former key: {old}; manage.py rotate_keys brings them to the new one",
        )
    yield Verdict.OK, f"sealed secrets: {secrets}, key {sealing.ring().first_id!r}"
    if settings.CLUSTER and (Path(settings.DATA_DIR) / "encryption.keys").exists():
        yield (
            Verdict.HINT,
            "several machines need one SONDE_ENCRYPTION_KEYS and one SECRET_KEY; this one made its own",
        )


def upstream() -> Findings:
    yield Verdict.OK, upstreams.describe()
    for row in Credential.objects.exclude(problem=""):
        if getattr(settings, row.name, "") and not upstreams.uses_sandbox():
            yield Verdict.WRONG, f"{row.name} {row.problem}"
    if not any(is_set_up(name) for name in _backends()):
        yield Verdict.HINT, "no run can be answered"
    if upstreams.responses_api() and "responses" not in _backends():
        yield Verdict.HINT, "RESPONSES_BACKEND_URL is never asked: name responses in RESEARCH_BACKENDS"
    api = upstreams.perplexity_api()
    if api is None:
        return
    if api.sandbox and not (settings.CLUSTER or _holder()):
        yield Verdict.HINT, "the sandbox runs while the portal does"
    else:
        yield from _judge_upstream(api)


def _backends() -> set[str]:
    """Every backend that a run may be sent to."""
    lists = Preset.objects.filter(enabled=True).values_list("backends", flat=True)
    return {*settings.RESEARCH_BACKENDS, *(name for names in lists for name in names)}


def web_sessions() -> Findings:
    for account in WebAccount.objects.exclude(import_problem=""):
        yield Verdict.WRONG, f"{account}: {account.import_problem}"
    accounts = [account for account in pool() if account.jar]
    if not accounts:
        yield Verdict.HINT, "there is none: chat needs one (manage.py set_cookie, or PPLX_COOKIE)"
    for account in accounts:
        usable = account.enabled and account.health != WebAccount.Health.EXPIRED
        reason = f": {account.health_reason}" if account.health_reason else ""
        state = account.health if account.enabled else "switched off"
        yield Verdict.OK if usable else Verdict.WRONG, f"{account} ({account.tier}) is {state}{reason}"


def alerts() -> Findings:
    if problem := notify.problem():
        yield Verdict.WRONG, problem
    elif notify.topic():
        yield Verdict.OK, f"go to {settings.NTFY_URL}"
    else:
        yield Verdict.HINT, "nobody is told when a session expires: set NTFY_TOPIC"


def disk() -> Findings:
    free = shutil.disk_usage(settings.DATA_DIR).free
    verdict = Verdict.WRONG if free < LEAST_DISK else Verdict.HINT if free < LITTLE_DISK else Verdict.OK
    yield verdict, f"{free / 2**30:.1f} GiB free under {settings.DATA_DIR}"


def retention() -> Findings:
    days = settings.RETENTION_DAYS
    yield (
        Verdict.OK,
        f"results are kept for {days} days" if days else "results are kept until they are deleted",
    )


def address() -> Findings:
    """As the running portal says, which may have been told another port than the settings say."""
    public_url, listening = settings.PUBLIC_URL, f"{settings.HOST}:{settings.PORT}"
    holder = _holder()
    if holder and holder.listening:
        public_url, listening = holder.public_url, holder.listening
    yield Verdict.OK, f"{public_url}, listening on {listening}"
    if "*" in settings.ALLOWED_HOSTS:
        yield Verdict.HINT, "ALLOWED_HOSTS is *: anybody may give the portal another name"
    is_local = _is_loopback(urlsplit(public_url).hostname or "")
    if is_local and not _is_loopback(listening.rpartition(":")[0]):
        yield Verdict.HINT, "PUBLIC_URL is an address of this machine only: set it to what others type"
    if not settings.SECURE and not is_local:
        yield (
            Verdict.HINT,
            "PUBLIC_URL is http: passwords and keys can be read on their way",
        )
    if settings.SECURE and not settings.TRUSTED_PROXIES:
        yield Verdict.HINT, "TRUSTED_PROXIES is empty: every client has the address of the https proxy"


LOOKS: dict[str, Callable[[], Findings]] = {
    "mode": mode,
    "data folder": data_folder,
    "database": database,
    "migrations": migrations,
    "triggers": triggers,
    "people": people,
    "encryption": encryption,
    "broker": broker,
    "channel layer": channel_layer,
    "sweeper": sweeper,
    "upstream": upstream,
    "web sessions": web_sessions,
    "alerts": alerts,
    "disk": disk,
    "retention": retention,
    "address": address,
}


def _holder() -> Holder | None:
    """The portal that has the folder, which only embedded mode locks."""
    return holder_of(Path(settings.DATA_DIR))


def _is_sheltered(path: Path, folder: Path) -> bool:
    """A file that others could read does not matter in a folder that they cannot enter."""
    return path != folder and not stat.S_IMODE(folder.stat().st_mode) & 0o077


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _round_trip() -> float:
    layer = get_channel_layer()
    started = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        channel = await layer.new_channel()
        await layer.group_add("doctor", channel)
        await layer.group_send("doctor", {"type": "doctor.ping"})
        await layer.receive(channel)
        await layer.group_discard("doctor", channel)
    return time.monotonic() - started


def _judge_upstream(api: upstreams.Upstream) -> Findings:
    try:
        answer = network.call(_ask_for_models(api))
    except (HTTPError, ValueError) as error:
        yield Verdict.WRONG, f"{api.base_url} cannot be reached ({type(error).__name__})"
        return
    if answer.status_code == 401:
        yield Verdict.WRONG, f"{api.base_url} refuses the key …{api.key[-4:]}"
    elif not answer.is_success:
        yield Verdict.WRONG, f"{api.base_url} answered {answer.status_code}"
    else:
        yield Verdict.OK, f"{api.base_url} answers and accepts the key"
    if date := answer.headers.get("date"):
        yield from _judge_clock("the upstream", parsedate_to_datetime(date).timestamp())


async def _ask_for_models(api: upstreams.Upstream) -> Response:
    async with async_client(api.base_url, timeout=PATIENCE) as client:
        return await client.get("/v1/models", headers={"Authorization": f"Bearer {api.key}"})


def _judge_clock(whose: str, theirs: float) -> Findings:
    skew = time.time() - theirs
    if abs(skew) > MOST_SKEW:
        yield Verdict.WRONG, f"the clock of this machine is {skew:+.0f} s from that of {whose}"
