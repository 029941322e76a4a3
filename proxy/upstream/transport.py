"""The one seam to the web upstream's network (`exchange`): which client a request goes out by.

Live it is curl, which shows the TLS and HTTP/2 fingerprint of a browser (`PPLX_IMPERSONATE`); to a
sandbox, to this machine, and with `PPLX_IMPERSONATE=off` it is the plain client. Clients belong to
the event loop that first asks with them: the web server's for streams, the network thread's for
workers and commands.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from django.conf import settings

from proxy.upstream.exchange import Client

OFF = "off"

# By event loop and profile. Each entry has a task that outlives its client: it closes it, and takes
# the entry away, when the loop ends and cancels what is left.
_clients: dict[tuple[asyncio.AbstractEventLoop, str], tuple[Client, asyncio.Task[None]]] = {}


def client_for(url: str, *, sandbox: bool) -> Client:
    """The running loop's client for the upstream at `url`."""
    profile = OFF if sandbox or is_loopback(url) else settings.PPLX_IMPERSONATE
    place = (asyncio.get_running_loop(), profile)
    if place not in _clients:
        client = make_client(profile)
        _clients[place] = (client, place[0].create_task(_keep(place, client)))
    return _clients[place][0]


async def _keep(place: tuple[asyncio.AbstractEventLoop, str], client: Client) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        del _clients[place]
        await client.close()


def make_client(profile: str, ca_file: str = "") -> Client:
    """A new client of the running loop. `ca_file` names certificates to trust in place of the usual."""
    # Each client is loaded by those who use it: curl is large, and not made for every platform.
    if profile == OFF:
        from proxy.upstream.plain import PlainClient  # noqa: PLC0415

        return PlainClient()
    from proxy.upstream.curl import CurlClient  # noqa: PLC0415

    return CurlClient(profile, ca_file)


def profile_problem() -> str:
    """What is wrong with PPLX_IMPERSONATE, for people; "" when nothing is, or nobody will use it."""
    if OFF == settings.PPLX_IMPERSONATE or is_loopback(settings.PPLX_WEB_URL):
        return ""
    try:
        from proxy.upstream.curl import UnknownProfile, check_profile  # noqa: PLC0415
    except ImportError as error:
        return f"PPLX_IMPERSONATE: curl is not there ({error}); off does without it"
    try:
        check_profile(settings.PPLX_IMPERSONATE)
    except UnknownProfile as error:
        return str(error)
    return ""


@lru_cache(256)
def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
