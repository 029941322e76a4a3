"""A file on its way to the account that is to look at it (perplexity-web §14).

    Perplexity gives a form → the storage takes the bytes → Perplexity reads it, if it is a document

What is wrong with the session is a `Fault`, since another account may do better; everything else
ends in a 502 that names the input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from django.conf import settings

from portal.http import CannotBeSent, HTTPError, async_client
from portal.services.spool import Spool
from portal.wire.sse import SseDecoder, SseTooLong
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.verdicts import UpstreamFailed, judge
from proxy.protocol.web_request import ask_headers, versioned
from proxy.protocol.web_uploads import (
    CREATE_PATH,
    LARGEST_READING,
    PROCESS_PATH,
    Form,
    Reading,
    Refused,
    create_body,
    needs_reading,
    process_body,
    read_form,
    read_stored,
)
from proxy.upstream.exchange import Lost, Reply, Request, Unreachable
from proxy.upstream.transport import client_for
from proxy.upstream.web import Read, Session, exchange

STORE_SECONDS = 60.0
READING_SECONDS = 60.0
LARGEST_RECEIPT = 256 * 1024
"""Bytes of what the storage answers."""
NO_DOCUMENTS = (
    "Perplexity cannot read documents at present: its network protection refuses the reading. Pictures work."
)


@dataclass(frozen=True, slots=True)
class Parcel:
    """One attachment with its bytes. `name` has an ending that fits its type."""

    name: str
    content_type: str
    content: Spool


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where the upstream has it now, and the session with the cookies that came on the way."""

    url: str
    session: Session


Renew = Callable[[Session, tuple[str, ...]], Awaitable[Session]]
"""Stores what an accepted answer set, at once: whatever comes of the upload, the next call may need it."""


def failed(message: str, *, final: bool = True) -> UpstreamFailed:
    """`final`: an SDK that sends the same again gains nothing."""
    return UpstreamFailed(message, param="input", headers={"x-should-retry": "false"} if final else {})


async def deliver(session: Session, file: Parcel, renew: Renew) -> Delivered | Fault:
    """Raises UpstreamFailed, for what no other account would do better."""
    answer = await _tell(session, versioned(CREATE_PATH, settings.PPLX_API_VERSION), _announced(file))
    if isinstance(answer, Fault):
        return replace(answer, param="input")
    session = await renew(session, answer.set_cookies)
    try:
        form = read_form(answer.body, session.upstream.base_url)
        stored = await _store(form, file)
        if needs_reading(file.content_type):
            return await _read(session, Reading(form.file_id, stored), renew)
    except Refused as refusal:
        raise failed(f"{refusal}") from None
    return Delivered(stored, session)


def _announced(file: Parcel) -> bytes:
    return create_body(file.name, file.content_type, file.content.size)


async def _tell(session: Session, path: str, body: bytes) -> Read | Fault:
    request = _request(session, path, body)
    answer = await exchange(request, sandbox=session.upstream.sandbox)
    if isinstance(answer, Fault):
        return answer
    return judge(answer.status, answer.headers, answer.body) or answer


def _request(session: Session, path: str, body: bytes, accept: str = "application/json") -> Request:
    base_url = session.upstream.base_url
    headers = ask_headers(settings.USER_AGENT, session.jar, base_url, "") | {"accept": accept}
    del headers["x-request-id"]
    return Request("POST", base_url + path, headers, body)


async def _store(form: Form, file: Parcel) -> str:
    """To a stranger's server: a client of its own, with no cookies and no redirects. Raises Refused."""
    part = {"file": (file.name, file.content.open(), file.content_type)}
    body = bytearray()
    try:
        async with (
            asyncio.timeout(STORE_SECONDS),
            async_client(timeout=STORE_SECONDS) as client,
            client.stream("POST", form.url, data=dict(form.fields), files=part) as answer,
        ):
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > LARGEST_RECEIPT:
                    break
    except (HTTPError, *CannotBeSent, TimeoutError):
        raise failed("The storage of Perplexity cannot be reached.", final=False) from None
    return read_stored(form, answer.status_code, bytes(body))


async def _read(session: Session, reading: Reading, renew: Renew) -> Delivered:
    """Have a document read. Raises Refused, and UpstreamFailed while nobody is let in there."""
    request = _request(session, PROCESS_PATH, process_body(reading.file_id), "text/event-stream")
    try:
        async with asyncio.timeout(READING_SECONDS):
            reply = await client_for(request.url, sandbox=session.upstream.sandbox).open(request)
            try:
                fault = judge(reply.status, reply.headers)
                if fault is not None:
                    raise failed(_why_unread(fault))
                session = await renew(session, reply.set_cookies)
                await _follow(reply, reading)
            finally:
                await reply.close()
    except (Unreachable, Lost, SseTooLong, TimeoutError):
        raise failed("Perplexity broke off while it was reading the document.", final=False) from None
    return Delivered(reading.end(), session)


async def _follow(reply: Reply, reading: Reading) -> None:
    """Until the end of the events, or until there are too many of them."""
    decoder, size = SseDecoder(), 0
    while chunk := await reply.read():
        size += len(chunk)
        for record in decoder.feed(chunk):
            if record.event == "end_of_stream":
                return
            reading.take(record)
        if size > LARGEST_READING:
            return


def _why_unread(fault: Fault) -> str:
    """It says nothing about the session: Cloudflare stands before this one door (perplexity-web §14)."""
    if fault.kind in (FaultKind.BLOCKED, FaultKind.FORBIDDEN):
        return NO_DOCUMENTS
    return "Perplexity did not read the document."
