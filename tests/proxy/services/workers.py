"""Workers of this process, and what one leaves behind that dies."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from django.db import connections
from django.utils import timezone

from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse, ResponseEvents
from proxy.services import background


def turn_of(row: ChatResponse) -> ChatTurn:
    return ChatTurn.objects.get(pk=row.pk)


def in_a_worker(row: ChatResponse) -> Callable[[], None]:
    """Starts to answer; the function that is returned waits for the end."""
    pool = ThreadPoolExecutor(1)

    def run() -> None:
        try:
            background.answer_response(row.pk)
        finally:
            connections.close_all()

    answered = pool.submit(run)
    return lambda: answered.result(30)


def until(holds: Callable[[], object], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def told(row: ChatResponse) -> str:
    """The text in the events that are written."""
    data = "".join(ResponseEvents.objects.filter(response=row).values_list("data", flat=True))
    return text_in(data.encode())


def text_in(stream: bytes) -> str:
    """The text in the events that came."""
    payloads = [json.loads(line[6:]) for line in stream.decode().split("\n") if line.startswith("data: ")]
    return "".join(one["delta"] for one in payloads if one["type"] == "response.output_text.delta")


def die(row: ChatResponse) -> None:
    """As a worker that is killed in the middle leaves it: the lease is over, nobody has released it."""
    ChatTurn.objects.filter(pk=row.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def left_by_a_dead_worker(row: ChatResponse) -> None:
    """Somebody begins it, tells some of its text, and is gone without a word."""
    wait = in_a_worker(row)
    until(lambda: told(row))
    # What it still does is refused: it is not the one who holds the turn any more.
    ChatTurn.objects.filter(pk=row.pk).update(claimed_at=timezone.now() - timedelta(hours=1))
    wait()
    die(row)
