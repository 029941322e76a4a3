"""`manage.py mcp_stdio`: the MCP server on standard input and output (SPEC 10.27).

SONDE_URL and SONDE_API_KEY   relays to that portal
SONDE_API_KEY                 this portal's own tools, for the key's user
PERPLEXITY_API_KEY            the three pplx_* tools, straight on Perplexity's API
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from portal.management.base import SpokenCommand
from portal.mcp.frames import Frames
from portal.services import network


class Command(SpokenCommand):
    help = "Serve MCP on standard input and output, for assistants on this machine."

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.SONDE_URL and not settings.SONDE_API_KEY:
            raise CommandError("SONDE_API_KEY: is needed to relay to SONDE_URL: a key with the scope mcp")
        try:
            asyncio.run(serve())
        finally:
            network.close()


async def serve() -> None:
    """Until the input has ended and all is answered, or a signal comes."""
    serving = asyncio.ensure_future(_serve(Frames()))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def _serve(frames: Frames) -> None:
    # The SDK is large, and each way needs its own part of the rest.
    if settings.SONDE_URL:
        from portal.mcp.relay import Relay  # noqa: PLC0415

        await Relay(settings.SONDE_URL, settings.SONDE_API_KEY, frames).run()
    elif settings.SONDE_API_KEY:
        from portal.mcp.local import serve_portal  # noqa: PLC0415

        await serve_portal(settings.SONDE_API_KEY, frames)
    else:
        from portal.mcp.direct import serve_direct  # noqa: PLC0415

        await serve_direct(settings.PERPLEXITY_API_KEY, settings.PERPLEXITY_BASE_URL, frames)
