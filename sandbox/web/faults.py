"""The ways in which one exchange with the web backend goes wrong (perplexity-web §12), each by name.

Where a name also stands in `sandbox.faults`, it is the same trouble in the manners of the web.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.responses import Response

from sandbox.faults import EDGE_PAGE, Exchange, Fault, wait_header
from sandbox.wire import CutResponse, DroppedConnection, reply

Answer = Callable[[Exchange], Response]

_PAGE = """<!DOCTYPE html><html lang="en-US"><head><title>{title}</title>
<meta http-equiv="refresh" content="390"></head><body><h1>www.perplexity.ai</h1>
<p>Verify you are human by completing the action below.</p>
<script>(function(){{window._cf_chl_opt={{cvId:'3',cType:'managed',cRay:'sandbox'}};
var a=document.createElement('script');a.src='/cdn-cgi/challenge-platform/h/g/orchestrate/chl_page/v1';
document.head.appendChild(a);}}());</script><form action="/?__cf_chl_f_tk=sandbox"></form></body></html>"""
_HALF = (
    b'event: message\r\ndata: {"backend_uuid":"00000000-0000-4000-8000-000000000000","status":"PENDING"' * 2
)


def challenge(status: int, title: str = "Just a moment...") -> Response:
    """Cloudflare's page, as it looks with any status."""
    headers = {"cf-mitigated": "challenge", "cf-ray": "sandbox-SIM", "server": "cloudflare"}
    return Response(_PAGE.format(title=title), status, headers, media_type="text/html; charset=UTF-8")


def _json(status: int, body: object) -> Answer:
    return lambda _: reply(status, body)


def _detail(status: int, text: str) -> Answer:
    return _json(status, {"detail": text})


def _edge(status: int) -> Answer:
    return lambda _: Response(EDGE_PAGE, status, {"server": "cloudflare"}, media_type="text/html")


def too_many(exchange: Exchange) -> Response:
    """429, with `Retry-After` only when it was asked for."""
    return Response(
        b'{"detail":"Too many requests"}', 429, wait_header(exchange), media_type="application/json"
    )


def _half_stream() -> Response:
    response = CutResponse(_HALF)
    response.headers["content-type"] = "text/event-stream"
    return response


WEB_FAULTS: Mapping[str, Fault] = {
    "invalid": Fault("400: the body is rejected", _detail(400, "Invalid request")),
    "unauthorized": Fault("401 with JSON: the session is rejected", _json(401, {"error": "Unauthorized"})),
    "unauthorized-empty": Fault("401 without a body", lambda _: Response(status_code=401)),
    "forbidden": Fault("403 with JSON: not Cloudflare's, so the session may be at fault", _json(403, {})),
    "challenge": Fault("403 with Cloudflare's challenge page", lambda _: challenge(403)),
    "challenge-block": Fault(
        "403 with Cloudflare's page of refusal",
        lambda _: challenge(403, "Attention Required! | Cloudflare"),
    ),
    "challenge-ok": Fault("200 with Cloudflare's challenge page", lambda _: challenge(200)),
    "not-found": Fault("404", _detail(404, "Not Found")),
    "too-large": Fault("413", _detail(413, "Payload too large")),
    "unprocessable": Fault(
        "422 in FastAPI's shape",
        _json(
            422, {"detail": [{"loc": ["body", "params"], "msg": "Input should be valid", "type": "value"}]}
        ),
    ),
    "rate-limit": Fault("429; combine with retry-after for the header", too_many),
    "server-error": Fault("500 with JSON", _detail(500, "Internal Server Error")),
    "bad-gateway": Fault("502 with the edge's HTML page", _edge(502)),
    "unavailable": Fault("503 with the edge's HTML page", _edge(503)),
    "gateway-timeout": Fault("504 with the edge's HTML page", _edge(504)),
    "edge-error": Fault("522 with the edge's HTML page", _edge(522)),
    "not-json": Fault(
        "200 with a page that is not Cloudflare's",
        lambda _: Response(b"<html><body>Welcome to the network</body></html>", media_type="text/html"),
    ),
    "not-object": Fault("200 with a JSON list", _json(200, [])),
    "empty-body": Fault("200 without a byte", lambda _: Response(b"", media_type="text/event-stream")),
    "cut": Fault("200, then the connection closes in the middle of a record", lambda _: _half_stream()),
    "drop": Fault("the connection closes without an answer", lambda _: DroppedConnection()),
}
