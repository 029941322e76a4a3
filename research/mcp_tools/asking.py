"""A tool's arguments as the request that every other door makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portal.services.principal import Principal
from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from research.models.runs import Door
from research.protocol.agent import parse_run_request
from research.services.start import Started, start_run


def start_from(
    who: Principal, body: Mapping[str, object], names: Mapping[str, str], *, least_budget: int = 0
) -> Started:
    """Start the run that `body`, in REST's words, asks for; `names` are the tool's own where they differ.

    Raises BadRequest that names the tool's argument, and Conflict.
    """
    try:
        request = parse_run_request(Fields(body), {})
        return start_run(who, replace(request, least_budget=least_budget), Door.MCP)
    except BadRequest as problem:
        said = problem.param or ""
        own = names.get(said)
        if own is None:
            raise
        raise BadRequest(problem.message.replace(said, own, 1), param=own) from None
