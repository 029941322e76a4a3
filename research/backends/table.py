"""Names to backends. A run's list of backends is a list of these names."""

from __future__ import annotations

from collections.abc import Callable

from portal.services.sealing import SealError
from portal.services.upstreams import perplexity_api
from research.backends.agent import AgentBackend
from research.backends.base import Backend
from research.backends.sonar import SonarBackend, SonarSdkBackend
from research.models.backends import BackendPolicy
from research.protocol.outcome import Fault, Refused

BACKENDS: dict[str, Callable[[str, str, bool], Backend]] = {
    "agent": AgentBackend,
    "sonar": SonarBackend,
    "sonar-sdk": SonarSdkBackend,
}


def open_backend(name: str) -> Backend | Refused:
    """The backend, ready to be called, or why it cannot be used now. Reads the database."""
    make = BACKENDS.get(name)
    if make is None:
        return Refused(Fault.RETIRED, f"There is no backend called {name}.")
    if BackendPolicy.objects.filter(name=name, enabled=False).exists():
        return Refused(Fault.FORBIDDEN, f"The backend {name} is switched off.")
    try:
        upstream = perplexity_api()
    except SealError:
        return Refused(Fault.BAD_KEY, "The stored upstream key cannot be opened: see manage.py doctor.")
    if upstream is None:
        return Refused(Fault.BAD_KEY, "No upstream is configured: set PERPLEXITY_API_KEY.")
    return make(upstream.base_url, upstream.key, upstream.sandbox)
