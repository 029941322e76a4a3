"""`/v1/files…` (proxy-contract §10, openai-compat §4): uploads and downloads in pieces, whoever is slow."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from uuid import UUID

from portal.api.intake import announced_size
from portal.api.replies import Answer, Download, answer_json
from portal.api.routes import Call, KeyRoute, UploadRoute
from portal.api.threads import run_in_database
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import TooLarge
from proxy.protocol.file_form import FRAMING, FileForm, too_large
from proxy.protocol.files import (
    LARGEST_FILE,
    FileView,
    build_deleted,
    build_file,
    build_list,
    no_such_file,
    parse_file_id,
    parse_listing,
)
from proxy.services.files import (
    PIECE,
    Upload,
    begin_upload,
    delete_file,
    find_file,
    list_files,
    read_piece,
)

LARGEST_FORM = LARGEST_FILE + FRAMING
DOWNLOAD = {
    "Content-Type": "application/octet-stream",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


async def create(call: Call, who: Principal, body: AsyncIterator[bytes]) -> Answer:
    """One file, in memory never more of it than one piece."""
    form = FileForm(call.headers.get("content-type", ""))
    upload = await run_in_database(partial(begin_upload, who, announced_size(call.headers)))
    try:
        await _take_in(form, upload, body)
        stored = await run_in_database(partial(upload.finish, form.end()))
    except BaseException:
        await asyncio.shield(run_in_database(upload.drop))
        raise
    return answer_json(build_file(stored))


async def _take_in(form: FileForm, upload: Upload, body: AsyncIterator[bytes]) -> None:
    waiting = bytearray()
    try:
        async for data in body:
            waiting += form.feed(data)
            while len(waiting) >= PIECE:
                await run_in_database(partial(upload.add, bytes(waiting[:PIECE])))
                del waiting[:PIECE]
    except TooLarge as problem:
        raise problem if problem.param else too_large() from None
    if waiting:
        await run_in_database(partial(upload.add, bytes(waiting)))


def list_all(call: Call, who: Principal) -> Answer:
    page = list_files(who, parse_listing(call.query))
    return answer_json(build_list(page.files, has_more=page.has_more))


def retrieve(call: Call, who: Principal) -> Answer:
    return answer_json(build_file(find_file(who, _file_id(call))))


def download(call: Call, who: Principal) -> Download:
    file = find_file(who, _file_id(call))
    return Download(partial(_pieces, file), file.size, DOWNLOAD)


def delete(call: Call, who: Principal) -> Answer:
    identity = _file_id(call)
    delete_file(who, identity)
    return answer_json(build_deleted(identity))


async def _pieces(file: FileView) -> AsyncGenerator[bytes, None]:
    for number in range(math.ceil(file.size / PIECE)):
        data = await run_in_database(partial(read_piece, file.id, number))
        if data is None:
            raise no_such_file()  # it was deleted meanwhile
        yield data


def _file_id(call: Call) -> UUID:
    """Raises NotFound for what is no id of ours (SPEC 10.12)."""
    identity = parse_file_id(call.parts["id"])
    if identity is None:
        raise no_such_file()
    return identity


FILES = Scope.FILES.value
routes = (
    UploadRoute("POST", "/v1/files", FILES, create, LARGEST_FORM),
    KeyRoute("GET", "/v1/files", FILES, list_all),
    KeyRoute("GET", "/v1/files/{id}", FILES, retrieve),
    KeyRoute("DELETE", "/v1/files/{id}", FILES, delete),
    KeyRoute("GET", "/v1/files/{id}/content", FILES, download),
)
