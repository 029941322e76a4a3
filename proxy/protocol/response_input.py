"""The input of a Responses request: items in, normalised items and messages out (proxy-contract §8.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from proxy.protocol.chat_messages import Attachment, ChatMessage, read_file, read_image
from proxy.protocol.conversation import Role
from proxy.protocol.response_object import Json

MOST_ITEMS = 10_000
MOST_PARTS = 1_000
CHARACTERS_PER_TOKEN = 4
LONGEST_TEXT = 10_000_000
"""Characters: only a text that no prompt can take is longer, and that one has an error of its own."""
LONGEST_KEPT = 1_000_000
"""Characters of what is kept of a request, and repeated in its events. A body may be longer only for the
base64 in it; and not all that it says reaches the prompt, whose own length is checked later."""
_ALSO_SENT = ("instructions", "tools", "text")
_MESSAGE = (None, "message", "input_message")
_SKIPPED = frozenset(
    {
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "reasoning",
        "web_search_call",
    }
)
"""What a client sends back of an earlier answer, and what nothing is made of here."""
_ROLES = ("system", "developer", "user", "assistant")
_TEXT = frozenset({"input_text", "output_text", "summary_text", "text"})
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class InputItem:
    """One item of the input. `data` is how it is stored; without an `id` when its sender gave none.

    `message` is what it says in a plain prompt; None for what says nothing there.
    """

    data: Json
    message: ChatMessage | None = None


def read_input(body: Fields) -> tuple[InputItem, ...]:
    """The items of `input`, one of which speaks for the user. Raises BadRequest with param input."""
    value = body.values.get("input")
    items = read_items(body, [value] if isinstance(value, str) else body.items("input", most=MOST_ITEMS))
    if not any(_is_said(item) for item in items):
        raise body.refuse("input", "is required: a string, or items with a user message that is not empty")
    return items


def read_items(body: Fields, entries: Sequence[object]) -> tuple[InputItem, ...]:
    """The same, whoever speaks in them; none is no mistake."""
    read = [_item(body, at, entry) for at, entry in enumerate(entries)]
    items = tuple(item for item in read if item is not None)
    _check_ids(body, items)
    check_kept("input", sum(json_size(item.data) for item in items))
    return items


def json_size(value: object) -> int:
    """Characters of JSON."""
    return len(json.dumps(value, ensure_ascii=False))


def check_kept(param: str, size: int) -> None:
    """Raises BadRequest for more characters than a response keeps."""
    if size > LONGEST_KEPT:
        told = f"{param} has {size:,} characters; at most {LONGEST_KEPT:,} can be kept."
        raise BadRequest(told, param=param, code="context_length_exceeded")


def messages_of(items: Iterable[Json]) -> tuple[ChatMessage, ...]:
    """What stored items, of input and output alike, say in the prompt of a later response."""
    return tuple(message for item in items if (message := _message_of(item)) is not None)


def count_input_tokens(body: Fields) -> int:
    """An estimate of what a request's own words come to; what it continues is not among them."""
    texts = [message.text for message in messages_of(item.data for item in read_input(body))]
    said = [*texts, *(json.dumps(body.values[name]) for name in _ALSO_SENT if body.given(name))]
    return sum(map(len, said)) // CHARACTERS_PER_TOKEN


def _message_of(item: Json) -> ChatMessage | None:
    if item["type"] == "function_call_output":
        return ChatMessage("user", f"[tool output {item['call_id']}]: {item['output']}")
    if item["type"] != "message":
        return None
    texts = [part["refusal"] if part["type"] == "refusal" else part["text"] for part in item["content"]]
    return ChatMessage(cast(Role, item["role"]), " ".join(texts))


def _is_said(item: InputItem) -> bool:
    message = item.message
    return message is not None and message.role == "user" and bool(message.text.strip())


def _check_ids(body: Fields, items: Iterable[InputItem]) -> None:
    given = [item.data["id"] for item in items if "id" in item.data]
    if len(given) != len(set(given)):
        raise body.refuse("input", "holds two items with the same id")


def _item(body: Fields, at: int, entry: object) -> InputItem | None:
    """None for what is skipped."""
    if isinstance(entry, str):
        entry = {"role": "user", "content": entry}
    if not isinstance(entry, dict):
        raise _bad(at, "must be a string or an object")
    kind = entry.get("type")
    if kind in _MESSAGE:
        return _message(body, at, entry)
    if kind == "function_call_output":
        return _output(body, at, entry)
    if kind == "function_call":
        return InputItem(_stored(at, entry, "function_call", **_call(body, at, entry)))
    if isinstance(kind, str) and kind in _SKIPPED:
        return None
    raise _bad(at, "is of a type that is not supported")


def _message(body: Fields, at: int, entry: Json) -> InputItem:
    role = entry.get("role")
    if role not in _ROLES:
        raise _bad(at, f"needs a role, one of: {', '.join(_ROLES)}")
    parts, attachments = _parts(body, at, entry.get("content"), by_assistant=role == "assistant")
    if attachments and role != "user":
        raise _bad(at, "has an attachment, which only a user message can have")
    data = _stored(at, entry, "message", role=role, content=parts)
    return _speaking(data, attachments)


def _output(body: Fields, at: int, entry: Json) -> InputItem:
    parts, attachments = _parts(body, at, entry.get("output"))
    text = " ".join(part["text"] for part in parts)
    call = _word(body, at, entry, "call_id")
    return _speaking(_stored(at, entry, "function_call_output", call_id=call, output=text), attachments)


def _call(body: Fields, at: int, entry: Json) -> Json:
    return {name: _word(body, at, entry, name) for name in ("call_id", "name", "arguments")}


def _speaking(data: Json, attachments: tuple[Attachment, ...]) -> InputItem:
    message = _message_of(data)
    return InputItem(data, replace(message, attachments=attachments) if message else None)


def _stored(at: int, entry: Json, kind: str, **members: object) -> Json:
    given = entry.get("id")
    if given is not None and not (isinstance(given, str) and _ID.fullmatch(given)):
        raise _bad(at, "has an id of letters that no id has")
    return {**({} if given is None else {"id": given}), "type": kind, "status": "completed", **members}


def _parts(
    body: Fields, at: int, content: object, *, by_assistant: bool = False
) -> tuple[list[Json], tuple[Attachment, ...]]:
    """Normalised parts, each attachment as its marker, and the attachments."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or len(content) > MOST_PARTS:
        raise _bad(at, f"needs its content: a string, or a list of at most {MOST_PARTS:,} parts")
    parts: list[Json] = []
    attachments: list[Attachment] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("input_image", "input_file"):
            attachments.append(_image(at, part) if kind == "input_image" else read_file({"file": part}))
            parts.append(_text(attachments[-1].marker))
        elif kind == "refusal" and by_assistant:
            parts.append({"type": "refusal", "refusal": _checked(body, at, part.get("refusal"))})
        elif isinstance(kind, str) and kind in _TEXT:
            parts.append(_text(_checked(body, at, part.get("text")), by_assistant=by_assistant))
        else:
            raise _bad(at, "has a part of a type that is not supported")
    return parts, tuple(attachments)


def _image(at: int, part: Json) -> Attachment:
    by_id = part.get("file_id")
    if by_id is None:
        return read_image(part)
    if part.get("image_url") is not None:
        raise _bad(at, "has an image with both image_url and file_id")
    return read_file({"file": {"file_id": by_id}})


def _text(text: str, *, by_assistant: bool = False) -> Json:
    if by_assistant:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}


def _word(body: Fields, at: int, entry: Json, name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value:
        raise _bad(at, f"needs its {name}, a string")
    return _checked(body, at, value)


def _checked(body: Fields, at: int, value: object) -> str:
    """Text that UTF-8 and a database can carry."""
    if not isinstance(value, str):
        raise _bad(at, "has a text that is no string")
    return body.check_text("input", value, LONGEST_TEXT)


def _bad(at: int, what: str) -> BadRequest:
    return BadRequest(f"input[{at}] {what}.", param="input")
