"""The `input` of a request: a string, or OpenAI's list of items (agent-api §2); Sonar's `messages`, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from proxy.protocol.chat_messages import Attachment, read_file, read_image
from proxy.protocol.sonar import chat_part

LONGEST_QUESTION = 100_000
"""Characters. Far above any question, and what both upstreams still take."""
MOST_ITEMS = 500
INPUT_PARTS = ("input_file", "input_image")
SONAR_PARTS = ("image_url", "file_url", "pdf_url", "file")
"""Kinds of parts that attach something: of an `input`, and of Sonar's messages."""
BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class Input:
    question: str
    instructions: tuple[str, ...] = ()
    """Texts of `system` and `developer` items, in order."""
    ignored: tuple[str, ...] = ()
    """Places of items that ask nothing: earlier answers, tool calls."""
    attached: tuple[Attachment, ...] = ()
    """In order, each once."""


def references(attached: Iterable[Attachment]) -> tuple[str, ...]:
    """What tells each from all others, short enough to be kept and compared."""
    return tuple(one.reference for one in attached)


def read_input(body: Fields) -> Input:
    """Raises BadRequest when there is nothing to ask, or something that cannot be asked."""
    value = body.values.get("input")
    if isinstance(value, str):
        return _checked(body, "input", Input(_text(body, "input", value)))
    if body.given("input") and not isinstance(value, list):
        raise body.refuse("input", "must be a string or a list of input items")
    return _checked(body, "input", _read_items(body, "input", INPUT_PARTS))


def read_messages(body: Fields) -> Input:
    """The same of a chat request's `messages`."""
    return _checked(body, "messages", _read_items(body, "messages", SONAR_PARTS))


def _checked(body: Fields, name: str, found: Input) -> Input:
    if not found.question:
        raise body.refuse(name, "is required")
    if len(found.question) > LONGEST_QUESTION:
        raise body.refuse(name, f"must be at most {LONGEST_QUESTION:,} characters")
    return found


def _read_items(body: Fields, name: str, files: Sequence[str]) -> Input:
    said: dict[str, list[str]] = {"user": [], "system": []}
    ignored: list[str] = []
    attached: dict[str, Attachment] = {}
    for index, value in enumerate(body.items(name, most=MOST_ITEMS)):
        item = body.member(f"{name}[{index}]", value)
        voice = _voice(item)
        if voice is None:
            ignored.append(body.param(f"{name}[{index}]"))
            continue
        said[voice] += [text for text in _texts(item, files) if text]
        for one in _attached(item, files):
            if voice != "user":
                raise item.refuse("content", "has an attachment, which only a user's can have")
            attached.setdefault(one.reference, one)
    return Input(BETWEEN.join(said["user"]), tuple(said["system"]), tuple(ignored), tuple(attached.values()))


def _voice(item: Fields) -> str | None:
    """Whose words an item holds: the user's, the system's, or nobody's that count here."""
    role = item.text("role", longest=40)
    if item.text("type", longest=100) not in (None, "message") or role in ("assistant", "tool"):
        return None
    if role in ("system", "developer"):
        return "system"
    if role == "user":
        return "user"
    raise item.refuse("role", "must be one of: user, assistant, system, developer")


def _texts(item: Fields, files: Sequence[str]) -> Iterator[str]:
    content = item.values.get("content")
    if not isinstance(content, list):
        yield _text(item, "content", content)
        return
    for part in _parts(item):
        kind = part.text("type", longest=100)
        if kind in ("input_text", "text"):
            yield _text(part, "text", part.values.get("text"))
        elif kind not in files:
            raise part.refuse("type", f"must be text, or one of: {', '.join(files)}")


def _attached(item: Fields, files: Sequence[str]) -> Iterator[Attachment]:
    for part in _parts(item):
        if part.values.get("type") in files:
            yield _attachment(part.values)


def _attachment(part: Mapping[str, object]) -> Attachment:
    """Raises BadRequest with `param` input, as every door does of attachments (proxy-contract §11)."""
    if part.get("file_id") and part.get("image_url"):
        raise BadRequest("An image has both image_url and file_id: send one of them.", param="input")
    if part["type"] == "input_file" or part.get("file_id"):
        return read_file({"file": part})
    as_chat = chat_part(part)
    if isinstance(as_chat, dict) and as_chat["type"] == "file":
        return read_file(as_chat)
    return read_image(part)


def _parts(item: Fields) -> Iterator[Fields]:
    if isinstance(item.values.get("content"), list):
        for index, value in enumerate(item.items("content", most=MOST_ITEMS)):
            yield item.member(f"content[{index}]", value)


def _text(of: Fields, name: str, value: object) -> str:
    return of.check_text(name, value, LONGEST_QUESTION * 2).strip()
