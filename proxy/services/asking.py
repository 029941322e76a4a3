"""Asking with a session whose cookie may change at any moment.

Whoever asks goes through `open_answer`, not through `web.ask`: it keeps a rotated token before
anything of the answer is handed on, so that not even a kill loses it, and it asks once more when
the token it used had been replaced under way. Accounts that get a new token with every answer are
asked one at a time, until the head of the answer has come: their upstream knows the last two only.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakKeyDictionary

from django.utils import timezone

from portal.api.threads import run_in_database
from proxy.models.accounts import WebAccount
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.session import merge, token_of
from proxy.protocol.web_request import Ask, AskIds
from proxy.services.accounts import session_of, store_cookies
from proxy.upstream import web

TRIES = 3
GRACE_SECONDS = 0.25
"""For the answer that took the token away to be written down by whoever got it."""

# What this process has seen: accounts whose answers rotate the token, and one lock each and loop.
_restless: set[int] = set()
_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, defaultdict[int, asyncio.Lock]] = WeakKeyDictionary()


async def open_answer(session: web.Session, question: Ask, ids: AskIds) -> web.Opened | Fault:
    """`web.ask`, with the session as it is at that moment. A 401 for an outdated token asks again."""
    answer: web.Opened | Fault = Fault(FaultKind.SIGNED_OUT)
    for number in range(TRIES):
        async with _turn(session.account_id):
            if number or session.account_id in _restless:
                session = await run_in_database(partial(_now, session))
            answer = await web.ask(session, question, ids)
            if isinstance(answer, web.Opened):
                await _keep_cookies(session, answer)
                return answer
        if answer.kind is not FaultKind.SIGNED_OUT or not await _was_outdated(session):
            return answer
    return answer


async def _keep_cookies(session: web.Session, opened: web.Opened) -> None:
    token = token_of(merge(session.jar, opened.set_cookies))
    if token in ("", token_of(session.jar)):
        _restless.discard(session.account_id)
    else:
        _restless.add(session.account_id)
    if not opened.set_cookies:
        return
    keep = partial(store_cookies, session.account_id, session.jar_version, opened.set_cookies, timezone.now())
    try:
        # A caller who leaves now must not take the token along.
        await asyncio.shield(asyncio.ensure_future(run_in_database(keep)))
    except BaseException:
        await opened.close()
        raise


async def _was_outdated(session: web.Session) -> bool:
    """Whether another answer has changed the token that was refused."""
    for wait in (0, GRACE_SECONDS):
        await asyncio.sleep(wait)
        present = await run_in_database(partial(_now, session))
        if token_of(present.jar) != token_of(session.jar):
            return True
    return False


def _now(session: web.Session) -> web.Session:
    """The same session with its cookies as they are now."""
    return session_of(WebAccount.objects.get(pk=session.account_id))


@asynccontextmanager
async def _turn(account_id: int) -> AsyncIterator[None]:
    if account_id not in _restless:
        yield
        return
    locks = _locks.setdefault(asyncio.get_running_loop(), defaultdict(asyncio.Lock))
    async with locks[account_id]:
        yield
