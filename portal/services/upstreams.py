"""Which Perplexity this portal speaks to: the real one, the sandbox, or none (SPEC 1.3)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from portal.services import credentials

SANDBOX_KEY = "pplx-sandbox"
CLUSTER_SANDBOX_PORT = 8899
KEPT_SECONDS = 5.0
"""How long a process believes what it found of an embedded portal's credentials, for labels."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where to ask, and with what; `sandbox` labels everything that comes from it."""

    base_url: str
    key: str
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class WebUpstream:
    """Where web sessions ask; `solver_url` is the FlareSolverr beside it, `sandbox` as above."""

    base_url: str
    solver_url: str
    sandbox: bool = False


# What else can hold a credential: told by the apps above, which this one does not know.
_sources: list[Callable[[], bool]] = []
# What `expects_sandbox` found, and until when that counts by the monotonic clock.
_expected = (0.0, False)


def add_source(has_credential: Callable[[], bool]) -> None:
    """Have `has_credential` asked, too, whether this portal is configured."""
    _sources.append(has_credential)


def perplexity_api() -> Upstream | None:
    """The API to ask now; None when none is configured, or the sandbox has not started yet.

    Errors: sealing.SealError when the stored key cannot be opened.
    """
    if uses_sandbox():
        url = sandbox_url()
        return Upstream(url, SANDBOX_KEY, sandbox=True) if url else None
    key = credentials.read(credentials.PERPLEXITY_API_KEY)
    return Upstream(settings.PERPLEXITY_BASE_URL, key) if key else None


def responses_api() -> Upstream | None:
    """The operator's own Responses endpoint, `/responses` follows; None without one, or in the sandbox.

    It is trusted as configuration is: it may stand in a private network.
    """
    url = settings.RESPONSES_BACKEND_URL
    if not url or uses_sandbox():
        return None
    return Upstream(url if urlsplit(url).path else f"{url}/v1", settings.RESPONSES_BACKEND_KEY)


def perplexity_web() -> WebUpstream | None:
    """Where chat goes now; None before the sandbox has started."""
    return sandbox_web() if uses_sandbox() else live_web()


def live_web() -> WebUpstream:
    return WebUpstream(settings.PPLX_WEB_URL, settings.FLARESOLVERR_URL)


def sandbox_web() -> WebUpstream | None:
    """The sandbox plays FlareSolverr too."""
    url = sandbox_url()
    return WebUpstream(url, url, sandbox=True) if url else None


def describe() -> str:
    """One line for people: whom runs are sent to. Errors: sealing.SealError."""
    if uses_sandbox():
        return "sandbox: answers are simulated; set PERPLEXITY_API_KEY for real research"
    row = credentials.find(credentials.PERPLEXITY_API_KEY)
    if row is None:
        return _without_key()
    said = f"the key …{row.hint} is {row.standing}" if row.sealed else "there is no usable key"
    # Nobody needs to know what was said of a variable that has gone since.
    concerns = row.problem and (settings.PERPLEXITY_API_KEY or not row.sealed)
    problem = f"; PERPLEXITY_API_KEY {row.problem}" if concerns else ""
    return f"{settings.PERPLEXITY_BASE_URL}: {said}{problem}"


def _without_key() -> str:
    """Who else can answer a run, where there is no key."""
    others = ["Perplexity web sessions"] if settings.PPLX_COOKIE or _has_source() else []
    others += [_host(settings.RESPONSES_BACKEND_URL)] if settings.RESPONSES_BACKEND_URL else []
    if others:
        return f"{' and '.join(others)}; there is no PERPLEXITY_API_KEY"
    return "none: set PERPLEXITY_API_KEY or PPLX_COOKIE; until then every run fails"


def _host(url: str) -> str:
    """Of an address only what may be shown: it might hold a password."""
    return urlsplit(url).hostname or ""


def uses_sandbox() -> bool:
    """Told to, or in embedded mode without any credential anywhere, be it a refused one."""
    if settings.SONDE_UPSTREAM != "auto":
        return bool(settings.SONDE_UPSTREAM == "sandbox")
    return not settings.CLUSTER and not is_configured()


def expects_sandbox() -> bool:
    """`uses_sandbox` as it was moments ago: for a label that whoever asks the upstream puts right."""
    global _expected
    if settings.SONDE_UPSTREAM != "auto" or settings.CLUSTER:
        return uses_sandbox()
    until, expected = _expected
    if time.monotonic() >= until:
        expected = uses_sandbox()
        _expected = (time.monotonic() + KEPT_SECONDS, expected)
    return expected


def is_configured() -> bool:
    given = settings.PERPLEXITY_API_KEY or settings.PPLX_COOKIE or settings.RESPONSES_BACKEND_URL
    return bool(given) or credentials.find(credentials.PERPLEXITY_API_KEY) is not None or _has_source()


def when_unanswered() -> str:
    """One line for whoever has just taken a credential away; "" while anything else can answer."""
    if settings.SONDE_UPSTREAM == "sandbox" or is_configured():
        return ""
    if uses_sandbox():
        return (
            "Nothing is left that could answer: the next start brings the sandbox, no run is answered before."
        )
    return "Nothing is left that could answer: every run fails from now on, and costs nothing."


def _has_source() -> bool:
    return any(has_credential() for has_credential in _sources)


def serves_sandbox() -> bool:
    """Whether a web process of this portal has to serve the sandbox itself."""
    return uses_sandbox() and not external_sandbox()


def external_sandbox() -> str:
    """A sandbox that somebody else runs on this machine: PERPLEXITY_BASE_URL, when told to use one."""
    url = settings.PERPLEXITY_BASE_URL
    return url if settings.SONDE_UPSTREAM == "sandbox" and _is_loopback(url) else ""


def sandbox_url() -> str:
    """Where the sandbox listens; "" before it first did."""
    if external := external_sandbox():
        return external
    if settings.CLUSTER:
        return f"http://127.0.0.1:{sandbox_port()}"
    port = sandbox_port()
    return f"http://127.0.0.1:{port}" if port else ""


def sandbox_port() -> int:
    """The port it listens on: chosen by the operator, else the one it took last; 0: any."""
    if settings.SANDBOX_PORT or settings.CLUSTER:
        return settings.SANDBOX_PORT or CLUSTER_SANDBOX_PORT
    try:
        return int(json.loads(sandbox_note().read_text(encoding="utf-8"))["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def sandbox_note() -> Path:
    """Where the sandbox writes its port, for its next start and for other processes of the folder."""
    return Path(settings.DATA_DIR) / "sandbox.json"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
