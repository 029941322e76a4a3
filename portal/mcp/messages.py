"""JSON-RPC messages as far as doors have to look at them; the rest is the SDK's."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603
UNNAMED = {"name": "unnamed", "version": "0"}


class NotAMessage(Exception):
    """What came is no single message. `code` is JSON-RPC's, the text is for people."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def read_message(raw: bytes) -> Message:
    """One message. Raises NotAMessage."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise NotAMessage(PARSE_ERROR, "Parse error: this is not JSON.") from None
    if isinstance(found, list):
        raise NotAMessage(INVALID_REQUEST, "Send one message at a time: batches are not supported.")
    if not isinstance(found, dict) or not _is_message(found):
        raise NotAMessage(INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.")
    return found


def is_request(message: Message) -> bool:
    """Whether an answer is owed: an id of 0 is one, null is none (mcp-deep-research §5)."""
    return "method" in message and message.get("id") is not None


def named(message: Message) -> Message:
    """The same, with a name for a client that opens without one, which the SDK would not let in."""
    params = message.get("params")
    if message.get("method") != "initialize" or not isinstance(params, dict) or params.get("clientInfo"):
        return message
    return {**message, "params": {**params, "clientInfo": UNNAMED}}


def error(to: object, code: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": to, "error": {"code": code, "message": text}}


def encoded(message: Message) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _is_message(found: Message) -> bool:
    if found.get("jsonrpc") != "2.0":
        return False
    if not isinstance(found.get("id"), str | int | None) or isinstance(found.get("id"), bool):
        return False
    return isinstance(found.get("method"), str) or "result" in found or "error" in found
