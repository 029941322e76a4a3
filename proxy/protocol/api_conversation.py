"""The Conversations API: what a conversation looks like, and which items it is given (openai-compat §3)."""

from __future__ import annotations

from collections.abc import Mapping

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from proxy.protocol.response_input import read_items
from proxy.protocol.response_object import Json

MOST_NEW = 20
"""Items of one request."""


def conversation_object(name: str, created_at: int, metadata: Mapping[str, str]) -> Json:
    return {"id": name, "object": "conversation", "created_at": created_at, "metadata": dict(metadata)}


def conversation_deleted(name: str) -> Json:
    return {"id": name, "object": "conversation.deleted", "deleted": True}


def read_new_items(body: Fields) -> tuple[Json, ...]:
    """`items` as they are stored, without an id where none was given. Raises BadRequest with that param.

    What an attachment holds would be forgotten, so there must be none: it belongs into a response.
    """
    entries = body.items("items", most=MOST_NEW)
    try:
        items = read_items(Fields({"input": entries}), entries)
    except BadRequest as problem:
        raise BadRequest(problem.message.replace("input", "items", 1), param="items") from None
    if any(item.message and item.message.attachments for item in items):
        raise body.refuse("items", "cannot hold images or files: send them in the input of a response")
    return tuple(item.data for item in items)
