"""Sessions that get a new token with every answer, and are refused when they show an old one.

Such a session is asked one question at a time, until the answer's head is there and its token is
stored; the answers themselves then run side by side. Which sessions do so is learned from their
answers, in each process by itself: of several processes, each may be one token behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakKeyDictionary

from django.utils import timezone

from proxy.models.accounts import WebAccount
from proxy.protocol.session import TOKEN
from proxy.services.accounts import session_of, store_cookies
from proxy.services.threads import in_thread
from proxy.upstream.web import Opened, Session

_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Lock]] = WeakKeyDictionary()


def learn(account_id: int) -> None:
    """From now on this loop asks the account one question at a time."""
    _mine().setdefault(account_id, asyncio.Lock())


def is_free(account_id: int) -> bool:
    """Whether it may be asked without waiting, with the cookies that one has."""
    return account_id not in _mine()


async def keep_cookies(session: Session, opened: Opened) -> None:
    """Store what an answer's head set; an answer whose cookies cannot be kept is closed."""
    if not opened.set_cookies:
        return
    try:
        await keep_lines(session, opened.set_cookies)
    except BaseException:
        await opened.close()
        raise


async def keep_lines(session: Session, lines: tuple[str, ...]) -> None:
    """Store `Set-Cookie` lines. A caller who leaves meanwhile does not take the token along."""
    if any(line.startswith(TOKEN) for line in lines):
        learn(session.account_id)
    store = partial(store_cookies, session.account_id, session.jar_version, lines, timezone.now())
    await asyncio.shield(in_thread(store))


async def renewed(session: Session, lines: tuple[str, ...]) -> Session:
    """The session once `lines` are stored, with whatever is stored by then."""
    if not lines:
        return session
    await keep_lines(session, lines)
    return await in_thread(partial(latest_session, session))


def latest_session(session: Session) -> Session:
    """With the account's cookies as they are now."""
    account = WebAccount.objects.filter(pk=session.account_id).exclude(jar="").first()
    return session if account is None else session_of(account)


@asynccontextmanager
async def in_turn(account_id: int) -> AsyncIterator[bool]:
    """Wait for the account's other questions where that is needed; whether it was, so that the cookies
    that one had before are to be read again."""
    lock = _mine().get(account_id)
    if lock is None:
        yield False
        return
    async with lock:
        yield True


def _mine() -> dict[int, asyncio.Lock]:
    return _locks.setdefault(asyncio.get_running_loop(), {})
