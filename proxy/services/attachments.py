"""What is attached to a question, let in: every check that asks nobody but our own database.

Bytes leave the request here and stay out of memory until they are delivered (courier.py); what goes on
in the question, to the thread's key, to logs and rows, is a name and a digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from portal.services.principal import Principal
from portal.services.spool import Spool
from portal.wire.errors import BadRequest
from proxy.models.files import ResearchAttachment, ResponseAttachment, StoredFile
from proxy.protocol import attachments as rules
from proxy.protocol.chat import ChatRequest
from proxy.protocol.chat_messages import Attachment, ChatMessage, shown_name
from proxy.protocol.conversation import Conversation
from proxy.protocol.files import parse_file_id
from proxy.services.files import read_piece, visible_files
from proxy.services.kept_files import drop_kept, gone, hold, keep_bytes


@dataclass(frozen=True, slots=True)
class Enclosure:
    """One attachment that may be sent. Its bytes are `content`, or those of the file `file_id`, or are
    still to be fetched from `url`; `size` is 0 for those.

    `is_new` when it belongs to the question itself, and not to what was said before. `is_picture` as
    its type says, or its sender of what is still to be fetched. `fingerprint` tells it from others of
    its name.
    """

    name: str
    fingerprint: str
    content_type: str = ""
    size: int = 0
    content: Spool | None = None
    file_id: UUID | None = None
    url: str = ""
    is_new: bool = True
    is_picture: bool = False


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A request without its bytes, and what is attached to it, in order."""

    request: ChatRequest
    enclosures: tuple[Enclosure, ...] = ()

    def attached_to(self, conversation: Conversation) -> Conversation:
        """With what tells its attachments from others of the same names."""
        if not self.enclosures:
            return conversation
        before = tuple(one.fingerprint for one in self.enclosures if not one.is_new)
        new = tuple(one.fingerprint for one in self.enclosures if one.is_new)
        return replace(conversation, attached_before=before, attached=new)


def enclose(who: Principal, request: ChatRequest, inherited: Sequence[Enclosure] = ()) -> Enclosed:
    """`inherited` is what the responses before had attached. Raises BadRequest and TooLarge, with
    `param` input."""
    attachments = request.attachments
    if not attachments:
        return Enclosed(request, _as_history(inherited))
    rules.check_count(len(inherited) + len(attachments))
    stored = _stored(who, attachments)
    last = max(place for place, message in enumerate(request.messages) if message.role == "user")
    messages: list[ChatMessage] = []
    enclosures = list(_as_history(inherited))
    bridge = request.bridge
    for place, message in enumerate(request.messages):
        shown = message
        for attachment in message.attachments:
            file = stored.get(attachment.file_id)
            enclosures.append(_enclosure(attachment, file, is_new=place == last))
            rules.check_size(sum(one.size for one in enclosures))
            if file is not None:
                named = _named(attachment, file.filename)
                shown = replace(shown, text=shown.text.replace(attachment.marker, named.marker, 1))
                bridge = bridge and bridge.named(attachment.marker, named.marker, "input")
        messages.append(replace(shown, attachments=()))
    return Enclosed(replace(request, messages=tuple(messages), bridge=bridge), tuple(enclosures))


def enclosures_of(who: Principal, attachments: Sequence[Attachment]) -> tuple[Enclosure, ...]:
    """In order. Raises BadRequest and TooLarge, with `param` input."""
    stored = _stored(who, attachments)
    found: list[Enclosure] = []
    for one in attachments:
        found.append(_enclosure(one, stored.get(one.file_id), is_new=True))
        rules.check_size(sum(enclosure.size for enclosure in found))
    return tuple(found)


def keep_inline(user_id: int, enclosures: Sequence[Enclosure]) -> tuple[Enclosure, ...]:
    """Before the transaction that makes what holds them. Raises TooLarge where there is no room."""
    kept: list[Enclosure] = []
    with dropped_on_failure(kept):
        kept.extend(_with_file(user_id, one) for one in enclosures)
    return tuple(kept)


@contextmanager
def dropped_on_failure(enclosures: Sequence[Enclosure]) -> Iterator[None]:
    """What was kept for something that then was not made is deleted at once."""
    try:
        yield
    except Exception:
        drop_kept([one.file_id for one in enclosures if one.content is not None and one.file_id])
        raise


def hold_attached(response_id: UUID, enclosures: Sequence[Enclosure]) -> None:
    """In the transaction that makes a stored response: a worker may answer it, another may continue it.
    Raises BadRequest when one of them has gone meanwhile."""
    rows = [
        ResponseAttachment(response_id=response_id, fingerprint=one.fingerprint, is_new=one.is_new, **columns)
        for one, columns in zip(enclosures, held(enclosures), strict=True)
    ]
    ResponseAttachment.objects.bulk_create(rows)


def attached_of(response_id: UUID) -> tuple[Enclosure, ...]:
    """What was kept. Raises BadRequest when the bytes of one of them are gone."""
    rows = ResponseAttachment.objects.filter(response_id=response_id).select_related("file")
    return tuple(kept_in(row, row.fingerprint, is_new=row.is_new) for row in rows)


def held(enclosures: Sequence[Enclosure]) -> list[dict[str, Any]]:
    """What every row of an attachment keeps of each, once nobody can take their files away. Raises
    BadRequest when one of them has gone meanwhile."""
    hold([one.file_id for one in enclosures if one.file_id])
    return [
        {
            "position": position,
            "name": one.name[:255],
            "content_type": one.content_type,
            "url": one.url,
            "file_id": one.file_id,
        }
        for position, one in enumerate(enclosures)
    ]


def kept_in(
    row: ResponseAttachment | ResearchAttachment,
    fingerprint: str = "",
    *,
    is_new: bool = True,
    is_picture: bool = False,
) -> Enclosure:
    """The enclosure that a row keeps. Raises BadRequest when its bytes are gone."""
    if row.file is None and not row.url:
        raise gone()
    return Enclosure(
        row.name,
        fingerprint,
        row.content_type,
        row.file.size if row.file else 0,
        file_id=row.file_id,
        url=row.url,
        is_new=is_new,
        is_picture=is_picture,
    )


def _as_history(inherited: Sequence[Enclosure]) -> tuple[Enclosure, ...]:
    return tuple(replace(one, is_new=False) for one in inherited)


def _with_file(user_id: int, one: Enclosure) -> Enclosure:
    """With the file that has its bytes, but for those that are still to be fetched."""
    if one.file_id is not None or one.content is None:
        return one
    return replace(one, file_id=keep_bytes(user_id, one.name[:255], one.content_type, one.content))


def _stored(who: Principal, attachments: Sequence[Attachment]) -> dict[str, StoredFile]:
    """By file id. What is not the caller's own is answered like what does not exist."""
    ids = {one.file_id: parse_file_id(one.file_id) for one in attachments if one.file_id}
    rows = visible_files(who).in_bulk([identity for identity in ids.values() if identity])
    if any(identity not in rows for identity in ids.values()):
        raise BadRequest("No file with this id exists.", param="input")
    return {text: rows[identity] for text, identity in ids.items() if identity}


def _enclosure(attachment: Attachment, file: StoredFile | None, *, is_new: bool) -> Enclosure:
    mark = attachment.fingerprint
    if attachment.url:
        rules.check_url(attachment.url)
        picture = attachment.is_picture
        return Enclosure(attachment.name, mark, url=attachment.url, is_new=is_new, is_picture=picture)
    if file is not None:
        kind = rules.type_of(file.content_type, file.filename, (read_piece(file.pk, 0) or b"")[: rules.HEAD])
        name = rules.upload_name(file.filename, kind)
        picture = rules.is_picture(kind)
        return Enclosure(name, mark, kind, file.size, file_id=file.pk, is_new=is_new, is_picture=picture)
    inline = rules.decode(attachment.data)
    kind = rules.type_of(inline.content_type, attachment.name, inline.content[: rules.HEAD])
    name, size = rules.upload_name(attachment.name, kind), len(inline.content)
    spool, picture = Spool(inline.content), rules.is_picture(kind)
    return Enclosure(name, mark, kind, size, spool, is_new=is_new, is_picture=picture)


def _named(attachment: Attachment, filename: str) -> Attachment:
    """The model sees the file's name, not the id under which we keep it."""
    if attachment.name != shown_name(attachment.file_id):
        return attachment
    return replace(attachment, name=shown_name(filename) or "file")
