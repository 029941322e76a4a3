"""The web upstream: one call, one answer, judged. No retry, no database (perplexity-web).

Nothing here raises for what the upstream does: every failure is a `Fault`. Only an open answer, in
the middle of which there is no other way, ends by raising `Broke`. A cancelled call closes its
connection at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

from django.conf import settings

from portal.services.upstreams import WebUpstream
from proxy.protocol import discovery, quota, web_request
from proxy.protocol.delta import Fault, FaultKind, Thread
from proxy.protocol.discovery import UpstreamCatalogue
from proxy.protocol.quota import Quota, SolverFailed
from proxy.protocol.session import Jar, SignedIn, Tier, read_session
from proxy.protocol.verdicts import HEAD_BYTES, judge
from proxy.protocol.web_request import Ask, AskIds
from proxy.upstream.exchange import Lost, Reply, Request, Unreachable
from proxy.upstream.patience import Alarm, Pulse, Watch, patience_for
from proxy.upstream.transport import client_for

CALL_SECONDS = 30.0
SOLVER_SECONDS = 25.0
"""FlareSolverr gives up after 20 by itself (perplexity-web §11.1)."""
REFUSAL_SECONDS = 10.0
"""How long the body of a refused question may take."""
LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer that is read whole."""
SESSION_DOMAIN = ".perplexity.ai"
CATALOGUE_PATH = "/rest/models/config?config_schema=v1&version={}&source=default"


class Broke(Exception):
    """An open answer ended before its end."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.kind)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Session:
    """What a call needs of an account; made by `accounts.session_of`."""

    account_id: int
    name: str
    tier: Tier
    jar: Jar
    jar_version: int
    upstream: WebUpstream


@dataclass(frozen=True, slots=True)
class Read:
    """An answer that was read whole, whatever its status."""

    status: int
    headers: Mapping[str, str]
    set_cookies: tuple[str, ...]
    body: bytes


class Opened:
    """An answer that has begun with a 200. Close it, whatever happens."""

    def __init__(self, reply: Reply, watch: Watch) -> None:
        self._reply = reply
        self._pulse = Pulse()
        self._alarm = Alarm(watch, self._lose_patience)
        self._took_too_long = False

    @property
    def set_cookies(self) -> tuple[str, ...]:
        """To be stored at once (`accounts.store_cookies`): the next call may need the new token."""
        return self._reply.set_cookies

    @property
    def is_over(self) -> bool:
        """Whether all of it was read."""
        return self._reply.is_over

    async def read(self) -> bytes:
        """What came of the body meanwhile; it waits for some. Empty at its end. Raises `Broke`."""
        self._alarm.set()
        try:
            chunk = await self._reply.read()
        except Lost:
            raise Broke(Fault(FaultKind.TIMED_OUT if self._took_too_long else FaultKind.CUT)) from None
        except BaseException:
            self._alarm.stop()
            raise
        self._alarm.heard(event=self._pulse.is_event(chunk))
        return chunk

    async def close(self) -> None:
        """At once: it never waits."""
        self._alarm.stop()
        await self._reply.close()

    def _lose_patience(self) -> None:
        self._took_too_long = True
        self._reply.break_off()


def new_ids() -> AskIds:
    # In one read, and without the class of the library: that takes five times as long for each question.
    digits = os.urandom(64).hex()
    return AskIds(*(_random_uuid(digits[at : at + 32]) for at in range(0, 128, 32)))


def _random_uuid(digits: str) -> str:
    """The text of a UUID of version 4 from 32 random hex digits."""
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


async def ask(session: Session, ask: Ask, ids: AskIds) -> Opened | Fault:
    """Send a question and wait for the head of its answer."""
    body = web_request.ask_body(ask, ids)
    return await _open(session, web_request.ASK_PATH, body, ids.request, ask.preference)


async def reconnect(session: Session, thread: Thread, preference: str) -> Opened | Fault:
    """Take an answer up again: all of it so far in one frame, then the rest (perplexity-web §15).

    FORBIDDEN where the thread is gone, which only a session check tells from a dead session.
    """
    path, body = web_request.reconnect_path(thread.entry), web_request.reconnect_body()
    return await _open(session, path, body, str(uuid4()), preference)


async def _open(session: Session, path: str, body: bytes, request_id: str, preference: str) -> Opened | Fault:
    base_url = session.upstream.base_url
    headers = web_request.ask_headers(settings.USER_AGENT, session.jar, base_url, request_id)
    request = Request("POST", base_url + path, headers, body)
    watch = Watch(patience_for(preference))
    try:
        async with asyncio.timeout(watch.left):
            reply = await client_for(base_url, sandbox=session.upstream.sandbox).open(request)
    except (Unreachable, Lost, TimeoutError) as error:
        return _fault_of(error)
    if judge(reply.status, reply.headers) is None:
        return Opened(reply, watch)
    return await _refusal(reply)


async def check(session: Session) -> tuple[SignedIn | Fault, tuple[str, ...]]:
    """Whose session it is, and the cookies that the answer set: to be kept only for a `SignedIn`."""
    answer = await _get(session, web_request.SESSION_PATH)
    if isinstance(answer, Fault):
        return answer, ()
    return read_session(answer.status, answer.headers, answer.body), answer.set_cookies


async def read_quota(session: Session) -> Quota | Fault:
    """What is left, as Perplexity itself says; BROKEN when it shows no counters."""
    answer = await _get(session, web_request.QUOTA_PATH)
    if isinstance(answer, Fault):
        return answer
    fault = judge(answer.status, answer.headers, answer.body)
    return fault or quota.read_quota(answer.body) or Fault(FaultKind.BROKEN)


async def solve_quota(session: Session) -> Quota | SolverFailed:
    """The same through FlareSolverr's browser, which takes about ten seconds."""
    upstream = session.upstream
    asked = quota.solver_request(upstream.base_url + web_request.QUOTA_PATH, session.jar, SESSION_DOMAIN)
    headers = {"content-type": "application/json"}
    request = Request("POST", f"{upstream.solver_url}/v1", headers, json.dumps(asked).encode())
    # A service of the operator's, not the upstream: it is never shown a browser's fingerprint.
    answer = await exchange(request, sandbox=True, seconds=SOLVER_SECONDS)
    if isinstance(answer, Fault):
        return SolverFailed(f"FlareSolverr gave no answer: {answer.kind}.")
    return quota.read_solved(answer.body)


async def read_catalogue(session: Session) -> UpstreamCatalogue | Fault:
    """The models that the upstream lists; it costs no query (perplexity-web §13)."""
    answer = await _get(session, CATALOGUE_PATH.format(settings.PPLX_API_VERSION))
    if isinstance(answer, Fault):
        return answer
    fault = judge(answer.status, answer.headers, answer.body)
    return fault or discovery.read_catalogue(answer.body) or Fault(FaultKind.BROKEN)


async def terminate(session: Session, thread: Thread, preference: str) -> Fault | None:
    """Stop an answer; `preference` is the model that really gives it (perplexity-web §15)."""
    body = web_request.terminate_body(thread, preference, int(time.time() * 1000))
    reason = {"x-perplexity-request-reason": "thread-floating-footer"}
    return await _tell(session, "POST", web_request.TERMINATE_PATH, body, reason)


async def delete(session: Session, thread: Thread) -> Fault | None:
    """Remove a thread from the account's history (perplexity-web §15)."""
    body = web_request.delete_body(thread)
    return await _tell(session, "DELETE", web_request.DELETE_PATH, body, {})


async def _tell(
    session: Session, method: str, path: str, body: bytes, more: Mapping[str, str]
) -> Fault | None:
    base_url = session.upstream.base_url
    headers = web_request.ask_headers(settings.USER_AGENT, session.jar, base_url, "")
    headers |= {"accept": "application/json", **more}
    del headers["x-request-id"]
    request = Request(method, base_url + path, headers, body)
    answer = await exchange(request, sandbox=session.upstream.sandbox)
    return answer if isinstance(answer, Fault) else judge(answer.status, answer.headers, answer.body)


async def _get(session: Session, path: str) -> Read | Fault:
    headers = web_request.browser_headers(settings.USER_AGENT, session.jar)
    request = Request("GET", session.upstream.base_url + path, headers)
    return await exchange(request, sandbox=session.upstream.sandbox)


async def exchange(request: Request, *, sandbox: bool, seconds: float = CALL_SECONDS) -> Read | Fault:
    """One request and its whole answer."""
    try:
        async with asyncio.timeout(seconds):
            reply = await client_for(request.url, sandbox=sandbox).open(request)
            try:
                body = await _body(reply, LARGEST_ANSWER)
            finally:
                await reply.close()
    except (Unreachable, Lost, TimeoutError) as error:
        return _fault_of(error)
    return Read(reply.status, reply.headers, reply.set_cookies, body)


async def _refusal(reply: Reply) -> Fault:
    """What an answer that is none says; its body is read only as far as that takes."""
    body = b""
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            body = await _body(reply, HEAD_BYTES)
    except (Lost, TimeoutError):
        pass  # the head alone has said enough
    finally:
        await reply.close()
    return judge(reply.status, reply.headers, body) or Fault(FaultKind.BROKEN)


async def _body(reply: Reply, most: int) -> bytes:
    """The body, or its first `most` bytes and a little more."""
    body = bytearray()
    while len(body) < most and (chunk := await reply.read()):
        body += chunk
    return bytes(body)


def _fault_of(error: Unreachable | Lost | TimeoutError) -> Fault:
    if isinstance(error, Unreachable):
        return Fault(FaultKind.UNREACHABLE)
    return Fault(FaultKind.CUT if isinstance(error, Lost) else FaultKind.TIMED_OUT)
