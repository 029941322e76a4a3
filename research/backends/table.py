"""Names to backends. A run's list of backends is a list of these names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.conf import settings

from portal.services.sealing import SealError
from portal.services.upstreams import perplexity_api, responses_api, uses_sandbox
from proxy.services.accounts import pool
from research.backends.agent import AgentBackend
from research.backends.base import Backend
from research.backends.responses import ResponsesBackend
from research.backends.sonar import SonarBackend, SonarSdkBackend
from research.backends.web import WebBackend
from research.models.backends import BackendPolicy
from research.protocol.outcome import Fault, Refused


def _of_api(make: Callable[[str, str, bool], Backend]) -> Backend | Refused:
    try:
        upstream = perplexity_api()
    except SealError:
        return Refused(Fault.BAD_KEY, "The stored upstream key cannot be opened: see manage.py doctor.")
    if upstream is None:
        return Refused(
            Fault.ABSENT, "No upstream is configured: set PERPLEXITY_API_KEY, or add a Perplexity session."
        )
    return make(upstream.base_url, upstream.key, upstream.sandbox)


def _web() -> Backend | Refused:
    if not pool().filter(enabled=True).exclude(jar="").exists():
        return Refused(Fault.ABSENT, "No Perplexity session is configured: an administrator must add one.")
    return WebBackend(uses_sandbox())


def _responses() -> Backend | Refused:
    upstream = responses_api()
    if upstream is None:
        return Refused(Fault.ABSENT, "No Responses endpoint is configured: set RESPONSES_BACKEND_URL.")
    return ResponsesBackend(upstream.base_url, upstream.key, settings.RESPONSES_BACKEND_MODEL)


BACKENDS: dict[str, Callable[[], Backend | Refused]] = {
    "agent": partial(_of_api, AgentBackend),
    "sonar": partial(_of_api, SonarBackend),
    "sonar-sdk": partial(_of_api, SonarSdkBackend),
    "web": _web,
    "responses": _responses,
}


def open_backend(name: str) -> Backend | Refused:
    """The backend, ready to be called, or why it cannot be used now. Reads the database."""
    make = BACKENDS.get(name)
    if make is None:
        return Refused(Fault.RETIRED, f"There is no backend called {name}.")
    if BackendPolicy.objects.filter(name=name, enabled=False).exists():
        return Refused(Fault.FORBIDDEN, f"The backend {name} is switched off.")
    return make()


def is_set_up(name: str) -> bool:
    """Whether anybody has configured it; it may still be refused."""
    opened = open_backend(name)
    return not (isinstance(opened, Refused) and opened.fault is Fault.ABSENT)
