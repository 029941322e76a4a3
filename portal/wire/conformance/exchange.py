"""HTTP and errors: profiles H and E of openai-compat §6."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from portal.wire.conformance.checks import Fault, NotThere, Suite, obj, text, unless

Kind = Literal["json", "stream", "bytes"]
_TELLTALE = re.compile(r"Traceback|File \"|site-packages|/home/|/usr/|/srv/|\.py\b")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answer. `headers` have lower-case names. `kind` is what was asked for; an error is JSON always.

    `fields` are the names that the request may have, path and query included; None when nobody knows.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    kind: Kind = "json"
    fields: Collection[str] | None = None

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def error(self) -> dict[str, Any]:
        return obj(obj(json.loads(self.body))["error"])


HTTP: Suite[Exchange] = Suite()
ERROR: Suite[Exchange] = Suite()


def _is_json(answer: Exchange) -> bool:
    return answer.status >= 400 or (answer.kind == "json" and answer.status != 204)


def _only_at(answer: Exchange, status: int) -> None:
    if answer.status != status:
        raise NotThere


@HTTP.check("H1", "an answer has an x-request-id")
def _h1(answer: Exchange) -> Fault:
    return unless(answer.headers.get("x-request-id", "").strip(), "there is none")


@HTTP.check("H2", "JSON comes as application/json")
def _h2(answer: Exchange) -> Fault:
    if not _is_json(answer):
        raise NotThere
    return unless(answer.media_type == "application/json", f"it is {answer.media_type or 'unsaid'}")


@HTTP.check("H3", "a stream is an uncompressed text/event-stream that nobody caches")
def _h3(answer: Exchange) -> Fault:
    if answer.kind != "stream" or answer.status >= 400:
        raise NotThere
    if answer.media_type != "text/event-stream":
        return f"it is {answer.media_type or 'unsaid'}"
    if "content-encoding" in answer.headers:
        return "it is compressed"
    return unless("no-cache" in answer.headers.get("cache-control", ""), "Cache-Control lacks no-cache")


@HTTP.check("H4", "nothing redirects")
def _h4(answer: Exchange) -> Fault:
    return unless(not 300 <= answer.status < 400, f"status {answer.status}")


@HTTP.check("H5", "no Accept header is refused")
def _h5(answer: Exchange) -> Fault:
    return unless(answer.status != 406, "status 406")


@ERROR.check("E1", "the body is an error envelope")
def _e1(answer: Exchange) -> Fault:
    return unless("error" in obj(json.loads(answer.body)), "it has no error")


@ERROR.check("E2", "error has message, type, param and code")
def _e2(answer: Exchange) -> Fault:
    missing = [name for name in ("message", "type", "param", "code") if name not in answer.error]
    return unless(not missing, f"it lacks {', '.join(missing)}")


@ERROR.check("E3", "the message is for people, without traces of the machine")
def _e3(answer: Exchange) -> Fault:
    message = text(answer.error["message"])
    return unless(message.strip() and not _TELLTALE.search(message), "it is empty, or shows the machine")


@ERROR.check("E4", "a 401 says how to authenticate")
def _e4(answer: Exchange) -> Fault:
    _only_at(answer, 401)
    return unless(answer.headers.get("www-authenticate"), "there is no WWW-Authenticate")


@ERROR.check("E5", "a 429 says when to come back, or not to")
def _e5(answer: Exchange) -> Fault:
    _only_at(answer, 429)
    waits = "retry-after" in answer.headers or "retry-after-ms" in answer.headers
    return unless(
        waits or answer.headers.get("x-should-retry") == "false", "no Retry-After, no x-should-retry: false"
    )


@ERROR.check("E6", "a 409 says whether to repeat it")
def _e6(answer: Exchange) -> Fault:
    _only_at(answer, 409)
    return unless("x-should-retry" in answer.headers, "there is no x-should-retry")


@ERROR.check("E7", "param of a 400 names a field of the request")
def _e7(answer: Exchange) -> Fault:
    _only_at(answer, 400)
    param = answer.error["param"]
    if param is None:
        return None
    root = re.split(r"[.\[]", text(param), maxsplit=1)[0]
    known = answer.fields is None or root in answer.fields
    return unless(root and known, "it names something else")
