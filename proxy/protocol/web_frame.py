"""One `message` of the ask stream: only the members that mean something to us (perplexity-web §6).

The dozens of echo and display members are skipped unread, which is where most of the bytes are.
The kept ones are untyped: what has an unexpected type counts as absent later (`tolerant`).
"""

from __future__ import annotations

import json
from typing import Literal

import msgspec


class Frame(msgspec.Struct, gc=False):
    status: object = None
    final_sse_message: object = None
    text_completed: object = None
    backend_uuid: object = None
    context_uuid: object = None
    read_write_token: object = None
    thread_url_slug: object = None
    display_model: object = None
    user_selected_model: object = None
    blocks: object = None
    text: object = None
    web_results: object = None
    plan: object = None
    error: object = None
    error_code: object = None
    error_message: object = None
    upsell_information: object = None


class Piece(msgspec.Struct, gc=False):
    progress: Literal["IN_PROGRESS"]
    chunks: list[str]
    chunk_starting_offset: int
    answer: None = None


class PieceBlock(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    usage: str = msgspec.field(name="intended_usage")
    piece: Piece = msgspec.field(name="markdown_block")


class PieceFrame(Frame, gc=False):
    """One whose blocks are pieces of the answer, as of nearly every frame: read with their types it costs a
    third less. Where anything does not fit them, it is a plain `Frame`."""

    blocks: list[PieceBlock] = []


_PIECES = msgspec.json.Decoder(PieceFrame)
_FRAMES = msgspec.json.Decoder(Frame)
_VALUES = msgspec.json.Decoder()


def read_frame(data: bytes) -> Frame | None:
    """None for what is no JSON object."""
    try:
        return _decoded(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        mended = _mended(data)
    try:
        return None if mended is None else _decoded(mended)
    except (msgspec.DecodeError, RecursionError):
        return None


def _decoded(data: bytes) -> Frame:
    try:
        return _PIECES.decode(data)
    except msgspec.ValidationError:  # it holds something else, or something unexpected
        return _FRAMES.decode(data)


def read_json(text: str | bytes) -> object:
    """Any JSON value; None (which `null` is too) for what is no JSON."""
    try:
        value: object = _VALUES.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        mended = _mended(text)
        if mended is None:
            return None
        try:
            value = _VALUES.decode(mended)
        except (msgspec.DecodeError, RecursionError):
            return None
    return value


def _mended(data: str | bytes) -> bytes | None:
    """The same JSON without lone surrogates, which JSON may escape but no UTF-8 text can hold.

    An upstream that cuts its text between UTF-16 units makes them. None where the fault is another.
    """
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
