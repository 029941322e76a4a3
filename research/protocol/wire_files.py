"""What is attached to a question, as content parts of upstreams that take it in their request.

A page's address goes as it is: its upstream fetches it. What we keep goes in base64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from research.protocol.outcome import Attached, Order


def responses_content(order: Order) -> str | list[dict[str, Any]]:
    """The question's `content` in the shape of Responses, Perplexity's Agent API included (openai-compat
    §3.1, perplexity-api §5.2): text alone, or parts."""
    return _content("input_text", order, _responses_part)


def sonar_content(order: Order) -> str | list[dict[str, Any]]:
    """The same for Sonar's messages (perplexity-api §3.2)."""
    return _content("text", order, _sonar_part)


def _content(
    kind: str, order: Order, part_of: Callable[[Attached], dict[str, Any]]
) -> str | list[dict[str, Any]]:
    if not order.attached:
        return order.question
    return [{"type": kind, "text": order.question}, *map(part_of, order.attached)]


def _responses_part(one: Attached) -> dict[str, Any]:
    if one.is_picture:
        return {"type": "input_image", "image_url": one.url or one.data_url}
    if one.url:
        return {"type": "input_file", "file_url": one.url}
    return {"type": "input_file", "filename": one.name, "file_data": one.data_url}


def _sonar_part(one: Attached) -> dict[str, Any]:
    """Documents go without the head of a data URL there."""
    if one.is_picture:
        return {"type": "image_url", "image_url": {"url": one.url or one.data_url}}
    return {"type": "file_url", "file_url": {"url": one.url or one.data}, "file_name": one.name}
