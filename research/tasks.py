"""The worker's doors: a message says "look", the database says at what."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from research.services import advance, sweep

POLL_ROUNDS = 25
"""Batches one poll message may work off before it makes room for other work."""


@shared_task(name="research.submit")
def submit(run_id: str) -> None:
    advance.submit(UUID(run_id))


@shared_task(name="research.poll")
def poll() -> None:
    for _ in range(POLL_ROUNDS):
        if advance.poll() < advance.AT_ONCE:
            return


@shared_task(name="research.stop")
def stop(run_id: str) -> None:
    advance.stop(UUID(run_id))


@shared_task(name="research.sweep")
def sweep_due() -> None:
    sweep.sweep()


@shared_task(name="research.tidy")
def tidy() -> None:
    sweep.tidy()
