"""Files of `/v1/files` that are attached to a deep research: let in at its start, brought when it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from portal.services.principal import Principal
from portal.services.spool import Spool
from portal.wire.errors import BadRequest
from proxy.models.files import StoredFile
from proxy.protocol import attachments as rules
from proxy.protocol.delta import Fault
from proxy.protocol.files import parse_file_id
from proxy.services.files import read_file, read_piece, visible_files
from proxy.services.kept_files import gone
from proxy.services.rotation import renewed
from proxy.services.threads import in_thread
from proxy.upstream.attachments import Parcel, deliver
from proxy.upstream.web import Session


def check_files(who: Principal, names: Sequence[str]) -> None:
    """Every cheap check of `file-…` ids. What is not the caller's own is answered like what does not
    exist. Raises BadRequest and TooLarge, with `param` input."""
    rules.check_count(len(names))
    ids = [parse_file_id(name) for name in names]
    files = visible_files(who).in_bulk([identity for identity in ids if identity])
    if any(identity not in files for identity in ids):
        raise BadRequest("No file with this id exists.", param="input")
    for file in files.values():
        _type_of(file)
    rules.check_size(sum(file.size for file in files.values()))


async def bring(session: Session, files: Sequence[UUID]) -> tuple[Session, tuple[str, ...]] | Fault:
    """Give the account each file; where it has them now, and the session with whatever cookies that set.

    Raises Problem: BadRequest for a file that is gone, UpstreamFailed for what no account would take.
    """
    addresses: list[str] = []
    for identity in files:
        delivered = await deliver(session, await in_thread(partial(_parcel, identity)), renewed)
        if isinstance(delivered, Fault):
            return delivered
        session = delivered.session
        addresses.append(delivered.url)
    return session, tuple(addresses)


def _parcel(identity: UUID) -> Parcel:
    file = StoredFile.objects.filter(pk=identity, ready=True).first()
    if file is None:
        raise gone()
    content = Spool()
    for piece in read_file(identity):
        content.write(piece)
    kind = _type_of(file)
    return Parcel(rules.upload_name(file.filename, kind), kind, content)


def _type_of(file: StoredFile) -> str:
    head = (read_piece(file.pk, 0) or b"")[: rules.HEAD]
    return rules.type_of(file.content_type, file.filename, head)
