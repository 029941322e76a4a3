"""The `input` of a request: a string, or OpenAI's list of items (agent-api §2); Sonar's `messages`, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portal.wire.fields import Fields

LONGEST_QUESTION = 100_000
"""Characters. Far above any question, and what both upstreams still take."""
MOST_ITEMS = 500
BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class Input:
    question: str
    instructions: tuple[str, ...] = ()
    """Texts of `system` and `developer` items, in order."""
    ignored: tuple[str, ...] = ()
    """Places of items that ask nothing: earlier answers, tool calls."""


def read_input(body: Fields) -> Input:
    """Raises BadRequest when there is nothing to ask, or something that cannot be asked."""
    value = body.values.get("input")
    if isinstance(value, str):
        return _checked(body, "input", Input(_text(body, "input", value)))
    if body.given("input") and not isinstance(value, list):
        raise body.refuse("input", "must be a string or a list of input items")
    return _checked(body, "input", _read_items(body, "input"))


def read_messages(body: Fields) -> Input:
    """The same of a chat request's `messages`."""
    return _checked(body, "messages", _read_items(body, "messages"))


def _checked(body: Fields, name: str, found: Input) -> Input:
    if not found.question:
        raise body.refuse(name, "is required")
    if len(found.question) > LONGEST_QUESTION:
        raise body.refuse(name, f"must be at most {LONGEST_QUESTION:,} characters")
    return found


def _read_items(body: Fields, name: str) -> Input:
    said: dict[str, list[str]] = {"user": [], "system": []}
    ignored = []
    for index, value in enumerate(body.items(name, most=MOST_ITEMS)):
        item = body.member(f"{name}[{index}]", value)
        voice = _voice(item)
        if voice is None:
            ignored.append(body.param(f"{name}[{index}]"))
        else:
            said[voice] += [text for text in _texts(item) if text]
    return Input(BETWEEN.join(said["user"]), tuple(said["system"]), tuple(ignored))


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


def _texts(item: Fields) -> Iterator[str]:
    content = item.values.get("content")
    if not isinstance(content, list):
        yield _text(item, "content", content)
        return
    for index, value in enumerate(item.items("content", most=MOST_ITEMS)):
        part = item.member(f"content[{index}]", value)
        if part.text("type", longest=100) not in ("input_text", "text"):
            raise part.refuse("type", "must be input_text: attachments are not supported yet")
        yield _text(part, "text", part.values.get("text"))


def _text(of: Fields, name: str, value: object) -> str:
    return of.check_text(name, value, LONGEST_QUESTION * 2).strip()
