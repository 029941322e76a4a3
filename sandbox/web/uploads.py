"""Uploads (perplexity-web §14): forms, the storage that takes the bytes, and the reading of documents."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sandbox.scenarios import Script
from sandbox.web.accounts import user_id
from sandbox.web.ask_request import rejected
from sandbox.web.faults import challenge
from sandbox.web.framing import END, writer
from sandbox.web.limits import check_version
from sandbox.web.multipart import Field, read_form
from sandbox.web.visits import AnswerStream, Visit, WebBackend
from sandbox.wire import Cut, dump, reply
from sandbox.world import Refused, script_for

_STORAGE = "/_storage"
_WAIT = 300.0
"""Seconds that a reading takes which nobody waits for."""
_NEEDED = {"content_type": str, "file_size": int, "filename": str, "source": str}
_DENIED = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
)


def _origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


def _s3_fields(key: str, content_type: str) -> dict[str, str]:
    return {
        "acl": "bucket-owner-full-control",
        "Content-Type": content_type,
        "tagging": "<Tagging><TagSet></TagSet></Tagging>",
        "x-amz-meta-is_text_only": "false",
        "key": key,
        "AWSAccessKeyId": "SANDBOXACCESSKEY",
        "x-amz-security-token": "sandbox-security-token",
        "policy": "c2FuZGJveA==",
        "signature": "sandbox-signature=",
    }


def _cloudinary_fields(name: str) -> dict[str, str]:
    return {
        "timestamp": "1800000000",
        "unique_filename": "true",
        "folder": "user_uploads",
        "type": "private",
        "public_id": name,
        "moderation": "aws_rek",
        "resource_type": "image",
        "api_key": "000000000000000",
        "signature": "5a9d8c1e",
    }


def _denied(code: str, message: str, status: int = 403) -> Refused:
    text = _DENIED.format(code=code, message=message)
    return Refused(Response(text, status, media_type="application/xml"))


class UploadDoor:
    """Forms for one file or several, and the event stream about documents."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend = backend

    def _script(self, filename: str) -> Script:
        return script_for(filename, "web")

    def _check(self, visit: Visit) -> None:
        check_version(visit, self._backend.world.web_version, needed=True)
        if not visit.caller.signed_in:
            raise Refused(reply(401, {"error": "Unauthorized"}))

    def _form(self, visit: Visit, given: Any) -> dict[str, Any]:
        """A new upload; raises Refused with 400 or 422."""
        if not isinstance(given, dict):
            raise rejected("a file is an object")
        for name, kind in _NEEDED.items():
            if not isinstance(given.get(name), kind) or given.get(name) is True:
                raise rejected(f"{name} is missing or has the wrong type", 422)
        name, filename = str(uuid.uuid4()), given["filename"]
        script, base = self._script(filename), _origin(visit.request) + _STORAGE
        image = given["content_type"].startswith("image/")
        user = user_id(visit.caller.account)
        key = f"web/direct-files/attachments/{user}/{name}/{filename}"
        fields = _cloudinary_fields(name) if image else _s3_fields(key, given["content_type"])
        bucket = "/v1_1/sandbox/image/upload" if image else "/s3/"
        stored = f"{base}/image/upload/user_uploads/{name}.png" if image else f"{base}/s3/{key}"
        form = {"s3_bucket_url": base + bucket, "s3_object_url": stored, "fields": fields, "file_uuid": name,
                "rate_limited": script.markers.get("upload") == "limited",
                "error": "boom" if script.markers.get("upload") == "error" else None}  # fmt: skip
        values = (
            name,
            visit.caller.account,
            filename,
            given["content_type"],
            given["file_size"],
            json.dumps(form),
        )
        self._backend.store.add_upload(values)
        if script.markers.get("upload") == "missing":
            del form["fields"]
        return form

    async def create(self, visit: Visit) -> Response:
        self._check(visit)
        return reply(200, self._form(visit, visit.json()))

    async def create_batch(self, visit: Visit) -> Response:
        """Several files under names of the client's; `file_uuid` is then found in `fields.key` alone."""
        self._check(visit)
        given = visit.json()
        files = given.get("files") if isinstance(given, dict) else None
        if not isinstance(files, dict) or not files:
            raise rejected("files is an object with a file at least")
        forms = {name: self._form(visit, file) for name, file in files.items()}
        for form in forms.values():
            del form["file_uuid"]
        return reply(200, {"results": forms})

    async def process(self, visit: Visit) -> Response:
        """About documents: Cloudflare stands before it today, unless account or file say otherwise."""
        given = visit.json()
        names = given.get("file_uuids") if isinstance(given, dict) else None
        if not isinstance(names, list) or not names:
            raise rejected("file_uuids is a list with an id at least")
        found = [upload for name in names for upload in self._backend.store.uploads(str(name))]
        manners = {self._script(upload["filename"]).markers.get("processing", "") for upload in found} - {""}
        manner = manners.pop() if manners else ("works" if "docs" in visit.flags else "blocked")
        if manner == "blocked":
            raise Refused(challenge(403))
        return AnswerStream(self._backend, visit, self._records(found, manner))

    async def _records(self, uploads: list[dict[str, Any]], manner: str) -> AsyncIterator[bytes | Cut]:
        write = writer(Script())
        if manner == "cut":
            yield Cut()
            return
        if manner == "waits":
            await self._backend.world.sleep(_WAIT)
        if manner == "foreign":
            yield write(0, "message", dump({"file_uuid": str(uuid.uuid4()), "success": False}))
        for upload in uploads if manner != "silent" else ():
            read = upload["received"] is not None and manner != "failed"
            record = {
                "file_uuid": upload["id"],
                "success": read,
                "s3_url": upload["form"]["s3_object_url"] + "?processed" if read else None,
                "token_limit_exceeded": manner == "tokens",
                "final_sse_message": False,
            }
            yield write(1, "message", dump(record))
        yield write(2, *END)


class StorageDoor:
    """S3 and Cloudinary: they know nobody, want every field of the form in its order, and the file last."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend = backend

    def _received(self, visit: Visit) -> tuple[dict[str, Any], Field, Script]:
        """The upload that the form belongs to, and its file; raises Refused."""
        if visit.cookies:
            raise _denied("AccessDenied", "cookies have no business here")
        parts = list(read_form(visit.request.headers.get("content-type", ""), visit.body))
        if not parts or parts[-1].name != "file" or not parts[-1].filename:
            raise _denied("InvalidArgument", "POST requires exactly one file upload per request, last.", 400)
        fields = [(part.name, part.text) for part in parts[:-1]]
        told = dict(fields)
        name = told.get("public_id") or (told.get("key", "").split("/") + [""] * 5)[4]
        upload = next(iter(self._backend.store.uploads(name)), None) if name else None
        if upload is None or fields != list(upload["form"]["fields"].items()):
            raise _denied(
                "AccessDenied", "Invalid according to Policy: the fields are not those of the form."
            )
        file = parts[-1]
        if len(file.content) != upload["size"] or file.content_type != upload["content_type"]:
            raise _denied("EntityTooLarge", "The file is not the one that was announced.", 400)
        script = script_for(upload["filename"], "web")
        if script.markers.get("upload") == "refused":
            raise _denied("AccessDenied", "Access Denied")
        return upload, file, script

    def _keep(self, upload: dict[str, Any], file: Field) -> None:
        digest = hashlib.sha256(file.content).hexdigest()
        self._backend.store.receive_upload(upload["id"], len(file.content), digest)

    async def s3(self, visit: Visit) -> Response:
        upload, file, _ = self._received(visit)
        self._keep(upload, file)
        return Response(status_code=204, headers={"location": upload["form"]["s3_object_url"]})

    async def cloudinary(self, visit: Visit) -> Response:
        upload, file, script = self._received(visit)
        self._keep(upload, file)
        refused = script.markers.get("upload") == "rejected"
        place = f"/private/s--5a9d8c1e--/v1800000000/user_uploads/{upload['id']}.png"
        moderation = [{"kind": "aws_rek", "status": "rejected" if refused else "approved"}]
        secure = _origin(visit.request) + _STORAGE + "/image" + place
        return reply(200, {"public_id": upload["id"], "secure_url": secure, "moderation": moderation})
