"""What is attached to a run, read for a backend whose own request carries it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from uuid import UUID

from portal.wire.errors import BadRequest
from proxy.services.attachments import Enclosure
from proxy.services.deep_attachments import attached_to, read_attached
from research.protocol.outcome import Attached, Fault, Order, Refused


def with_attached(order: Order) -> Order | Refused:
    """Up to 28 MiB: to be read just before it is sent, and not to be kept."""
    if not order.options.attachments:
        return order
    try:
        return replace(order, attached=tuple(map(_attached, attached_to(UUID(order.upstream_key)))))
    except BadRequest as problem:
        return Refused(Fault.INVALID, problem.message)


def _attached(one: Enclosure) -> Attached:
    if one.url:
        return Attached(one.name, one.is_picture, url=one.url)
    data = b64encode(read_attached(one)).decode()
    return Attached(one.name, one.is_picture, one.content_type, data)
