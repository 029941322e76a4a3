"""The doorbell: tells workers by name that there is work, once the transaction has committed.

The database is the queue and the sweeper re-reads it every second, so a lost ring costs a
second and nothing else. Publishing therefore fails fast and never raises (STACK §4.1).
"""

from __future__ import annotations

import logging
from functools import partial

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def ring(task: str, *arguments: str) -> None:
    """Send `task` now."""
    try:
        current_app.send_task(task, args=arguments, ignore_result=True)
    except (OperationalError, OSError) as error:
        log.warning("could not ring %s: %s", task, error)


def ring_after_commit(task: str, *arguments: str) -> None:
    """Send `task` when the present transaction has committed, or now when there is none."""
    transaction.on_commit(partial(ring, task, *arguments), robust=True)
