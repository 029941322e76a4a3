"""How this house writes to its database: joining what is open, and not giving up at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction

log = logging.getLogger(__name__)

Result = TypeVar("Result")
PAUSES = (0.1, 0.3, 1.0, *[2.0] * 14)
"""Seconds before each new try: half a minute in all, which a restart of PostgreSQL does not take, and
never long after it is back, before somebody else takes what was left."""


def joined() -> AbstractContextManager[None]:
    """The caller's transaction where there is one, else a new one.

    Unlike `transaction.atomic` it sets no savepoint, which would cost two statements: an error must
    either leave the whole transaction, or have been raised before anything was written.
    """
    return nullcontext() if connection.in_atomic_block else transaction.atomic()


def insist(write: Callable[[], Result], pauses: tuple[float, ...] = PAUSES) -> Result:
    """Do `write`, again and again while the database is away or locked; then the last error is raised.

    For what the network brought and nobody could bring again. `write` has to be a transaction of
    its own that may meet its own traces: a commit whose answer was lost has happened.
    """
    for pause in pauses:
        try:
            return write()
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block:
                raise
            log.warning("the database is away, trying again in %.1f s: %s", pause, type(error).__name__)
            connection.close()
            time.sleep(pause)
    return write()
