"""This portal's tools on standard input and output: whoever has the key is on the machine already."""

from __future__ import annotations

import asyncio
from functools import partial

from portal.api.threads import run_in_database
from portal.mcp.engine import lend_worker
from portal.mcp.frames import Frames
from portal.mcp.server import build_server
from portal.mcp.stdio import serve_stdio
from portal.mcp.toolbox import OPENS, PortalToolbox, Visit
from portal.services.keys import authenticate_key
from portal.services.limits import admit_request
from portal.wire.errors import Forbidden, RateLimited, Unauthenticated
from portal.wire.ids import new_request_id
from portal.wire.tools import refused_by

HERE = "127.0.0.1"
"""What the address list of the key is asked about."""


async def serve_portal(key: str, frames: Frames) -> None:
    async def visit_of(caller: object) -> Visit:
        return await run_in_database(partial(_visit, key))

    worker = asyncio.create_task(lend_worker())
    try:
        await serve_stdio(build_server(PortalToolbox(visit_of)), frames)
    finally:
        worker.cancel()
        await asyncio.wait({worker})


def _visit(key: str) -> Visit:
    """Asked anew at each call: a revoked key ends with it. Raises Unauthenticated and Forbidden."""
    who = authenticate_key(key, HERE, new_request_id())
    if who is None:
        raise Unauthenticated(
            "SONDE_API_KEY opens nothing here: it is wrong, revoked or expired. Make a new key in the portal,"
            " and set it where your client's configuration names this command.",
            code="invalid_api_key",
        )
    if who.scopes.isdisjoint(OPENS):
        raise Forbidden("The key lacks the scope 'mcp'.")
    try:
        admit_request(who)
    except RateLimited as limited:
        return Visit(who, refused_by(limited))
    return Visit(who)
