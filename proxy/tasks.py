"""The worker's doors of proxied chat: a message says "look", the database says at what."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from proxy.services import (
    alerts,
    answering,
    background,
    continuity,
    discovery,
    files,
    forgetting,
    keepalive,
    quota,
    responses,
    settling,
)


@shared_task(name="proxy.care")
def care() -> None:
    """Whatever is due of the accounts: checks first, since what they find may be told."""
    keepalive.check_due()
    alerts.send_due()
    quota.read_due()
    forgetting.forget_due()


@shared_task(name="proxy.sweep_turns")
def sweep_turns() -> None:
    """Questions that nobody has begun, what processes that died left open, threads whose hour is over."""
    answering.ring_waiting()
    background.ring_waiting()
    settling.sweep_turns()
    continuity.forget_old_threads()


@shared_task(name="proxy.tidy")
def tidy() -> None:
    """Files whose time is over, what uploads left that never came to their end, and old responses."""
    files.tidy_files()
    responses.forget_old_responses()


@shared_task(name="proxy.discover")
def discover() -> None:
    discovery.discover_due()


@shared_task(name="proxy.answer_turn")
def answer_turn(turn_id: str) -> None:
    """One answer of the dashboard, from its question to its end: its queue has threads of its own."""
    answering.answer_turn(UUID(turn_id))


@shared_task(name="proxy.answer_response")
def answer_response(response_id: str) -> None:
    """One response in the background, to its end, or until it has to wait again."""
    background.answer_response(UUID(response_id))
