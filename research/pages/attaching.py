"""Files that are chosen in the question form: checked, and put into the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from django.core.files.uploadedfile import UploadedFile

from portal.services.principal import Principal
from portal.wire.errors import Problem
from proxy.protocol import attachments as rules
from proxy.services.attachments import Enclosure
from proxy.services.deep_attachments import let_in_file
from research.models.runs import Door
from research.pages.asking import FILES, Asking, request_of
from research.protocol.options import RunRequest
from research.services.start import Started, start_run


def start(who: Principal, asking: Asking, files: Sequence[UploadedFile[bytes]]) -> Started:
    """Raises what `start_run` raises; what is wrong with a file has the param of its field."""
    request = request_of(asking)
    try:
        enclosures = _let_in(files)
        return start_run(who, _with(request, enclosures), Door.BROWSER, enclosures)
    except Problem as problem:
        if problem.param == "input":  # the question was read before
            problem.param = FILES
        raise


def _let_in(files: Sequence[UploadedFile[bytes]]) -> tuple[Enclosure, ...]:
    rules.check_count(len(files))
    rules.check_size(sum(file.size or 0 for file in files))
    return tuple(let_in_file(file.name or "", file.content_type or "", file.chunks()) for file in files)


def _with(request: RunRequest, enclosures: Sequence[Enclosure]) -> RunRequest:
    """The same form with other files is another request."""
    if not enclosures:
        return request
    references = tuple(f"sha256:{one.fingerprint}" for one in enclosures)
    key = sha256("\n".join([request.idempotency_key or "", *references]).encode()).hexdigest()
    options = replace(request.options, attachments=references)
    return replace(request, options=options, idempotency_key=f"form-{key}")
