"""What is attached to a question, let in: every check that asks nobody but our own database.

Bytes leave the request here and stay out of memory until they are delivered (courier.py); what goes on
in the question, to the thread's key, to logs and rows, is a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portal.services.principal import Principal
from portal.services.spool import Spool
from portal.wire.errors import BadRequest
from proxy.models.files import StoredFile
from proxy.protocol import attachments as rules
from proxy.protocol.chat import ChatRequest
from proxy.protocol.chat_messages import Attachment, ChatMessage, shown_name
from proxy.protocol.conversation import Conversation
from proxy.protocol.files import parse_file_id
from proxy.services.files import read_file, visible_files


@dataclass(frozen=True, slots=True)
class Enclosure:
    """One attachment that may be sent. Without `content` it is still to be fetched from `url`.

    `is_new` when it belongs to the question itself, and not to what was said before.
    """

    name: str
    content_type: str = ""
    content: Spool | None = None
    url: str = ""
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A request without its bytes, and what was attached to it, in its order."""

    request: ChatRequest
    enclosures: tuple[Enclosure, ...] = ()


def enclose(who: Principal, request: ChatRequest) -> Enclosed:
    """Raises BadRequest and TooLarge, with `param` input."""
    if not request.attachments:
        return Enclosed(request)
    rules.check_count(len(request.attachments))
    stored = _stored(who, request.attachments)
    rules.check_size(sum(file.size for file in stored.values()))
    last = _last_question(request)
    messages: list[ChatMessage] = []
    enclosures: list[Enclosure] = []
    size = 0
    for place, message in enumerate(request.messages):
        shown = message
        for attachment in message.attachments:
            file = stored.get(attachment.file_id)
            made = _enclosure(attachment, file, is_new=place == last)
            size += made.content.size if made.content else 0
            rules.check_size(size)
            enclosures.append(made)
            if file is not None:
                shown = _named(shown, attachment, file.filename)
        messages.append(_without_bytes(shown))
    return Enclosed(replace(request, messages=tuple(messages)), tuple(enclosures))


def attached_to(conversation: Conversation, request: ChatRequest) -> Conversation:
    """With what tells its attachments from others of the same names."""
    if not request.attachments:
        return conversation
    last = _last_question(request)
    said = enumerate(request.messages)
    found = [(place == last, one.fingerprint) for place, message in said for one in message.attachments]
    return replace(
        conversation,
        attached_before=tuple(mark for is_new, mark in found if not is_new),
        attached=tuple(mark for is_new, mark in found if is_new),
    )


def _last_question(request: ChatRequest) -> int:
    return max(place for place, message in enumerate(request.messages) if message.role == "user")


def _stored(who: Principal, attachments: Sequence[Attachment]) -> dict[str, StoredFile]:
    """By file id. What is not the caller's own is answered like what does not exist."""
    ids = {one.file_id: parse_file_id(one.file_id) for one in attachments if one.file_id}
    rows = visible_files(who).in_bulk([identity for identity in ids.values() if identity])
    if any(identity not in rows for identity in ids.values()):
        raise BadRequest("No file with this id exists.", param="input")
    return {text: rows[identity] for text, identity in ids.items() if identity}


def _enclosure(attachment: Attachment, file: StoredFile | None, *, is_new: bool) -> Enclosure:
    if attachment.url:
        rules.check_url(attachment.url)
        return Enclosure(attachment.name, url=attachment.url, is_new=is_new)
    if file is not None:
        content, name, said = Spool(), file.filename, file.content_type
        for piece in read_file(file.pk):
            content.write(piece)
    else:
        inline = rules.decode(attachment.data)
        content, name, said = Spool(inline.content), attachment.name, inline.content_type
    kind = rules.type_of(said, name, content.head(rules.HEAD))
    return Enclosure(rules.upload_name(name, kind), kind, content, is_new=is_new)


def _named(message: ChatMessage, attachment: Attachment, filename: str) -> ChatMessage:
    """The model sees the file's name, not the id under which we keep it."""
    if attachment.name != shown_name(attachment.file_id):
        return message
    shown = replace(attachment, name=shown_name(filename) or "file")
    return replace(message, text=message.text.replace(attachment.marker, shown.marker, 1))


def _without_bytes(message: ChatMessage) -> ChatMessage:
    """What is left of an attachment tells it from others: threads are filed by that."""
    if not message.attachments:
        return message
    light = tuple(replace(one, data=one.fingerprint if one.data else "") for one in message.attachments)
    return replace(message, attachments=light)
