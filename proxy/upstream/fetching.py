"""Attachments that a user names by their address: fetched by us, from the public internet alone.

Each address on the way is checked twice: as it is written, and as it is connected to (`portal.http.Guard`),
so that neither a redirect nor a name server that changes its mind leads into our own networks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from yarl import URL

from portal.http import Guard, NotPublic
from portal.http_streams import StreamConnectFailed, StreamError, StreamResponse, guarded_session
from portal.services.spool import Spool
from portal.wire.errors import BadRequest
from proxy.protocol.attachments import LARGEST, check_size, check_url
from proxy.upstream.attachments import failed

SECONDS = 30.0
MOST_REDIRECTS = 3
REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Fetched:
    """`content_type` is what the server says, `name` the last part of the address in the end."""

    content: Spool
    content_type: str
    name: str


async def fetch(url: str, at_most: int, guard: Guard) -> Fetched:
    """Raises BadRequest, TooLarge beyond `at_most` bytes, and UpstreamFailed for what did not come."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _follow(check_url(url), at_most, guard)
    except TimeoutError:
        raise failed("An attachment could not be fetched in time.", final=False) from None
    except StreamConnectFailed as error:
        if isinstance(getattr(error, "os_error", None), NotPublic):
            message = "The address of an attachment does not lead to the public internet."
            raise BadRequest(message, param="input") from None
        raise failed("The server of an attachment cannot be reached.", final=False) from None
    except (StreamError, ValueError):
        raise failed("An attachment could not be fetched.", final=False) from None


async def _follow(url: URL, at_most: int, guard: Guard) -> Fetched:
    async with guarded_session(guard) as session:
        for _ in range(MOST_REDIRECTS + 1):
            async with session.get(url, allow_redirects=False) as answer:
                if answer.status not in REDIRECTS:
                    return await _take(answer, at_most)
                url = check_url(str(url.join(URL(answer.headers.get("location", "")))))
    raise failed("The address of an attachment is redirected too often.")


async def _take(answer: StreamResponse, at_most: int) -> Fetched:
    if answer.status != 200 or answer.headers.get("content-encoding", "identity") != "identity":
        raise failed("An attachment could not be fetched: its server does not give it.")
    content, left = Spool(), LARGEST - at_most
    check_size(left + (answer.content_length or 0))
    async for chunk in answer.content.iter_any():
        check_size(left + content.size + len(chunk))
        content.write(chunk)
    if not content.size:
        raise failed("An attachment could not be fetched: it is empty.")
    return Fetched(content, answer.headers.get("content-type", ""), answer.url.name)
