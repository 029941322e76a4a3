"""One idempotency key, one response, one charge (docs/decisions/0004)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from portal.services.principal import Principal
from portal.wire.errors import Conflict
from portal.wire.idempotency import PARAM, reused
from portal.wire.ids import response_id
from proxy.models.responses import ChatResponse
from proxy.protocol.response_once import Once
from proxy.queries import visible_responses

Made = TypeVar("Made")


class BeingAnswered(Conflict):
    """The same request came first, while this one looked for a place."""


def answer_once(who: Principal, once: Once | None, make: Callable[[], Made]) -> Made | ChatResponse:
    """What `make` makes, or the response that the same request has made before, as it is now.

    Raises Conflict for a key that was used with other parameters, and what `make` raises.
    """
    if once is None:
        return make()
    known = made_before(who, once)
    if known is not None:
        return known
    try:
        return make()
    except BeingAnswered:
        known = made_before(who, once)
        if known is None:
            raise
        return known


def made_before(who: Principal, once: Once) -> ChatResponse | None:
    rows = visible_responses(who).defer("said", "thread")
    row = rows.filter(idempotency_key=once.key).first()
    if row is not None and row.fingerprint != once.fingerprint:
        raise reused()
    return row


def being_answered(row: ChatResponse) -> BeingAnswered:
    told = f"The same request is being answered: read it at /v1/responses/{response_id(row.pk)}."
    return BeingAnswered(told, param=PARAM)
