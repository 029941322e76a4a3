"""What is attached to research: let in and kept at its start, and brought to whoever answers it.

let_in        every cheap check; nothing is written
hold          in the transaction that makes the run, once its bytes are kept (attachments.keep_inline)
attached_to   what was kept, for a retry and for backends whose own request carries it
bring         to the account of a web session that is about to be asked
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from hashlib import sha256
from uuid import UUID

from portal.http import Guard
from portal.services.principal import Principal
from portal.services.spool import Spool
from portal.wire.errors import BadRequest
from proxy.models.files import ResearchAttachment
from proxy.protocol import attachments as rules
from proxy.protocol.chat_messages import Attachment, shown_name
from proxy.protocol.delta import Fault
from proxy.services import kept_files
from proxy.services.attachments import Enclosure, enclosures_of, held, kept_in
from proxy.services.courier import parcel_of
from proxy.services.files import read_file
from proxy.services.rotation import renewed
from proxy.services.threads import in_thread
from proxy.upstream.attachments import deliver
from proxy.upstream.web import Session


def let_in(who: Principal, attached: Sequence[Attachment]) -> tuple[Enclosure, ...]:
    """Raises BadRequest and TooLarge, with `param` input."""
    rules.check_count(len(attached))
    return enclosures_of(who, attached)


def let_in_file(name: str, content_type: str, chunks: Iterable[bytes]) -> Enclosure:
    """The same of a file that a person has chosen; of several the caller checks number and size."""
    content, digest = Spool(), sha256()
    for chunk in chunks:
        content.write(chunk)
        digest.update(chunk)
    if not content.size:
        raise BadRequest("An attachment is empty.", param="input")
    kind = rules.type_of(content_type, name, content.head(rules.HEAD))
    shown = rules.upload_name(shown_name(name) or "file", kind)
    picture = rules.is_picture(kind)
    return Enclosure(shown, digest.hexdigest(), kind, content.size, content, is_picture=picture)


def hold(key: UUID, enclosures: Sequence[Enclosure]) -> None:
    """For as long as the research of this key is kept. Raises BadRequest when one of them is gone."""
    rows = [
        ResearchAttachment(key=key, is_picture=one.is_picture, **columns)
        for one, columns in zip(enclosures, held(enclosures), strict=True)
    ]
    ResearchAttachment.objects.bulk_create(rows)


def attached_to(key: UUID) -> tuple[Enclosure, ...]:
    """Raises BadRequest when the bytes of one of them are gone."""
    rows = ResearchAttachment.objects.filter(key=key).select_related("file")
    return tuple(kept_in(row, _fingerprint(row), is_picture=row.is_picture) for row in rows)


def _fingerprint(row: ResearchAttachment) -> str:
    """Tells it from everything else that a thread of chat was shown."""
    return sha256(f"{row.file_id or row.url}".encode()).hexdigest()


def names_attached(key: UUID) -> list[str]:
    """For people, in order."""
    return list(ResearchAttachment.objects.filter(key=key).values_list("name", flat=True))


def read_attached(enclosure: Enclosure) -> bytes:
    """The bytes of one that is kept. Raises BadRequest when they are gone."""
    content = b"" if enclosure.file_id is None else b"".join(read_file(enclosure.file_id))
    if not content:
        raise kept_files.gone()
    return content


def forget_attached(keys: Collection[UUID]) -> None:
    """The bytes go with the next tidying, unless something else needs them."""
    ResearchAttachment.objects.filter(key__in=keys).delete()


async def bring(
    session: Session, key: UUID, guard: Guard | None = None
) -> tuple[Session, tuple[str, ...]] | Fault:
    """Give the account each of them; where it has them now, and the session with whatever cookies that set.

    Raises Problem: BadRequest for one that is gone, UpstreamFailed for what no account would take.
    """
    addresses: list[str] = []
    held = 0
    for enclosure in await in_thread(partial(attached_to, key)):
        parcel = await parcel_of(enclosure, rules.LARGEST - held, guard or Guard())
        held += parcel.content.size
        delivered = await deliver(session, parcel, renewed)
        if isinstance(delivered, Fault):
            return delivered
        session = delivered.session
        addresses.append(delivered.url)
    return session, tuple(addresses)
