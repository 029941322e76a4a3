"""Which thread upstream holds a conversation, so that the next question continues there (proxy-contract §6).

A thread is filed under user, account, model, sources, language, recency and every turn, and is sealed:
its ids are as good as the session. It lives for an hour.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
from django.utils import timezone

from portal.services import sealing
from portal.services.rows import Insert, insert_values
from proxy.models.chats import Continuation
from proxy.protocol.conversation import Conversation, Scope, key_after, key_before
from proxy.protocol.delta import Thread

LIFE = timedelta(hours=1)
A_SWEEP = 500
Row = dict[str, Any]
"""What the columns of a Continuation hold."""


@dataclass(frozen=True, slots=True)
class Filing:
    """What shapes the answers of a conversation, besides its turns and its account."""

    user_id: int
    preference: str
    sources: tuple[str, ...]
    language: str
    recency: str = ""

    def scope(self, account_id: int) -> Scope:
        owner = str(self.user_id), str(account_id)
        return Scope(*owner, self.preference, self.sources, self.language, self.recency)


@dataclass(frozen=True, slots=True)
class Found:
    account_id: int
    thread: Thread


def find_thread(filing: Filing, conversation: Conversation, accounts: Iterable[int]) -> Found | None:
    """Where one of `accounts` holds exactly this history; the youngest, if several do."""
    return find_threads([(filing, conversation)], tuple(accounts))[0]


def find_threads(
    asked: Sequence[tuple[Filing, Conversation]], accounts: Collection[int]
) -> list[Found | None]:
    """The same for each of many."""
    places = [
        [key_before(filing.scope(one), conversation) for one in accounts] for filing, conversation in asked
    ]
    digests = [digest for place in places for digest in place]
    rows = {row.digest: row for row in _young(digests)} if digests else {}
    return [_youngest([rows[digest] for digest in place if digest in rows]) for place in places]


def _young(digests: Collection[str]) -> Iterable[Continuation]:
    return Continuation.objects.filter(digest__in=digests, used_at__gt=timezone.now() - LIFE)


def _youngest(rows: list[Continuation]) -> Found | None:
    if not rows:
        return None
    row = max(rows, key=lambda one: one.used_at)
    try:
        return Found(row.account_id, Thread(**json.loads(sealing.unseal(row, "thread"))))
    except sealing.SealError:
        return None  # sealed by a key that is gone: the whole conversation does as well


def is_fileable(conversation: Conversation) -> bool:
    """Whether nothing but its turns shapes this conversation: else no thread can stand for them."""
    shaped = conversation.instructions or conversation.dropped.system_lines
    return conversation.client == "generic" and not shaped


def thread_values(
    filing: Filing, conversation: Conversation, answer: str, account_id: int, thread: Thread
) -> Row:
    """Where this answer stands, to be kept; `answer` is cleaned and has no notices."""
    digest = key_after(filing.scope(account_id), conversation, answer)
    place = sealing.place_at(Continuation, digest, "thread")
    sealed = sealing.ring().seal(msgspec.json.encode(thread).decode(), place)
    return {"digest": digest, "user_id": filing.user_id, "account_id": account_id, "thread": sealed}


def keeping(rows: Iterable[Row]) -> Insert | None:
    """What keeps them; of two with one digest the last stays."""
    by_digest = {row["digest"]: row for row in rows}
    ordered = [by_digest[digest] for digest in sorted(by_digest)]
    return insert_values(Continuation, ordered, replaces=("thread", "used_at"))


def forget_thread(filing: Filing, conversation: Conversation, account_id: int) -> None:
    """The upstream does not take it any more."""
    Continuation.objects.filter(digest=key_before(filing.scope(account_id), conversation)).delete()


def forget_old_threads() -> int:
    """Those whose hour is over, some at a time; how many went."""
    old = Continuation.objects.filter(used_at__lt=timezone.now() - LIFE).order_by("used_at")
    batch = list(old.values_list("pk", flat=True)[:A_SWEEP])
    return Continuation.objects.filter(pk__in=batch).delete()[0] if batch else 0
