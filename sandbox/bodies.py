"""Reading request bodies: at most 32 MiB (perplexity-api §1), JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from starlette.requests import Request

from sandbox.faults import FAULTS, Exchange
from sandbox.wire import refusal
from sandbox.world import Refused

BODY_LIMIT = 32 * 1024 * 1024


async def read_body(request: Request) -> bytes:
    """The raw body; raises Refused with 413."""
    whole = bytearray()
    async for piece in request.stream():
        whole += piece
        if len(whole) > BODY_LIMIT:
            raise Refused(FAULTS["too-large"].answer(Exchange(None, None, 0)))
    return bytes(whole)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def decode(body: bytes) -> Any:
    """JSON as a strict server takes it; raises ValueError, also for NaN, lone surrogates, endless nesting."""
    try:
        decoded = json.loads(body, parse_constant=_no_constant)
        json.dumps(decoded, ensure_ascii=False).encode()
    except RecursionError as endless:
        raise ValueError("nested too deeply") from endless
    return decoded


async def read_json(request: Request) -> Any:
    """The decoded body; raises Refused with 413 or 400."""
    body = await read_body(request)
    try:
        return decode(body)
    except ValueError as unreadable:
        raise Refused(refusal(400, "invalid_request", f"invalid request body: {unreadable}")) from unreadable
