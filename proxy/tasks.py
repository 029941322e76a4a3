"""The worker's doors of proxied chat: a message says "look", the database says at what."""

from __future__ import annotations

from celery import shared_task

from proxy.services import alerts, continuity, discovery, keepalive, quota, settling


@shared_task(name="proxy.care")
def care() -> None:
    """Whatever is due of the accounts: checks first, since what they find may be told."""
    keepalive.check_due()
    alerts.send_due()
    quota.read_due()


@shared_task(name="proxy.sweep_turns")
def sweep_turns() -> None:
    """What processes that died left open, and threads whose hour is over."""
    settling.sweep_turns()
    continuity.forget_old_threads()


@shared_task(name="proxy.discover")
def discover() -> None:
    discovery.discover_due()
