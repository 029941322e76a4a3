"""The `input` of a request: a string, or OpenAI's list of items (agent-api §2); Sonar's `messages`, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portal.wire.fields import Fields

LONGEST_QUESTION = 100_000
"""Characters. Far above any question, and what both upstreams still take."""
MOST_ITEMS = 500
FILES = ("input_file", "input_image")
LONGEST_FILE_ID = 100
BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class Input:
    question: str
    instructions: tuple[str, ...] = ()
    """Texts of `system` and `developer` items, in order."""
    ignored: tuple[str, ...] = ()
    """Places of items that ask nothing: earlier answers, tool calls."""
    files: tuple[str, ...] = ()
    """Ids of attached files, in order, each once."""


def read_input(body: Fields) -> Input:
    """Raises BadRequest when there is nothing to ask, or something that cannot be asked."""
    value = body.values.get("input")
    if isinstance(value, str):
        return _checked(body, "input", Input(_text(body, "input", value)))
    if body.given("input") and not isinstance(value, list):
        raise body.refuse("input", "must be a string or a list of input items")
    return _checked(body, "input", _read_items(body, "input", takes_files=True))


def read_messages(body: Fields) -> Input:
    """The same of a chat request's `messages`."""
    return _checked(body, "messages", _read_items(body, "messages", takes_files=False))


def _checked(body: Fields, name: str, found: Input) -> Input:
    if not found.question:
        raise body.refuse(name, "is required")
    if len(found.question) > LONGEST_QUESTION:
        raise body.refuse(name, f"must be at most {LONGEST_QUESTION:,} characters")
    return found


def _read_items(body: Fields, name: str, *, takes_files: bool) -> Input:
    said: dict[str, list[str]] = {"user": [], "system": []}
    ignored: list[str] = []
    files: dict[str, None] = {}
    for index, value in enumerate(body.items(name, most=MOST_ITEMS)):
        item = body.member(f"{name}[{index}]", value)
        voice = _voice(item)
        if voice is None:
            ignored.append(body.param(f"{name}[{index}]"))
        else:
            said[voice] += [text for text in _texts(item, takes_files=takes_files) if text]
            files |= dict.fromkeys(_files(item) if takes_files else ())
    return Input(BETWEEN.join(said["user"]), tuple(said["system"]), tuple(ignored), tuple(files))


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


def _texts(item: Fields, *, takes_files: bool) -> Iterator[str]:
    content = item.values.get("content")
    if not isinstance(content, list):
        yield _text(item, "content", content)
        return
    for part in _parts(item):
        kind = part.text("type", longest=100)
        if kind in ("input_text", "text"):
            yield _text(part, "text", part.values.get("text"))
        elif not takes_files or kind not in FILES:
            raise part.refuse(
                "type", f"must be {'input_text, input_file or input_image' if takes_files else 'text'}"
            )


def _files(item: Fields) -> Iterator[str]:
    """A run may wait for long: it takes what is kept already, and nothing that would have to be."""
    for part in _parts(item):
        if part.text("type", longest=100) in FILES:
            name = part.word("file_id", longest=LONGEST_FILE_ID)
            if name is None:
                raise part.refuse("file_id", "is required: research takes files of /v1/files")
            yield name


def _parts(item: Fields) -> Iterator[Fields]:
    if isinstance(item.values.get("content"), list):
        for index, value in enumerate(item.items("content", most=MOST_ITEMS)):
            yield item.member(f"content[{index}]", value)


def _text(of: Fields, name: str, value: object) -> str:
    return of.check_text(name, value, LONGEST_QUESTION * 2).strip()
