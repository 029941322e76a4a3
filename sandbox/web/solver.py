"""FlareSolverr v3 (perplexity-web §11.1): a browser that reads a page for somebody and wraps it in HTML."""

from __future__ import annotations

import html
import json
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from sandbox.web.faults import challenge
from sandbox.web.limits import availability, counters
from sandbox.web.visits import Visit, WebBackend
from sandbox.wire import reply

_VERSION = "3.4.6"
_AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0"
_SHOWN = (
    '<html><head><meta name="color-scheme" content="light dark"></head><body>'
    '<pre style="word-wrap: break-word; white-space: pre-wrap;">{text}</pre>'
    '<div class="json-formatter-container"></div></body></html>'
)
_PAGES = {"/rest/rate-limit/all": counters, "/rest/rate-limit/status": availability}


def _cookies(given: Any) -> dict[str, str]:
    found = given if isinstance(given, list) else []
    return {str(item.get("name")): str(item.get("value")) for item in found if isinstance(item, dict)}


class SolverDoor:
    """POST /v1, GET / and GET /health."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend = backend

    async def ready(self, _: Visit) -> Response:
        return reply(200, {"msg": "FlareSolverr is ready!", "version": _VERSION, "userAgent": _AGENT})

    async def health(self, _: Visit) -> Response:
        return reply(200, {"status": "ok"})

    def _stamped(self, status: int, body: dict[str, Any]) -> Response:
        now = int(self._backend.world.clock() * 1000)
        return reply(status, {**body, "startTimestamp": now, "endTimestamp": now, "version": _VERSION})

    def _failed(self, message: str) -> Response:
        return self._stamped(500, {"status": "error", "message": f"Error: {message}"})

    async def solve(self, visit: Visit) -> Response:
        given = visit.json()
        body = given if isinstance(given, dict) else {}
        if not body.get("cmd"):
            return self._failed("Request parameter 'cmd' is mandatory.")
        if body["cmd"] != "request.get":
            return self._failed(f"Request parameter 'cmd' = '{body['cmd']}' is invalid.")
        if not isinstance(body.get("url"), str):
            return self._failed("Request parameter 'url' is mandatory in 'request.get' command.")
        return self._page(body)

    def _page(self, body: dict[str, Any]) -> Response:
        cookies = _cookies(body.get("cookies"))
        caller, account = self._backend.recognise(cookies)
        flags = caller.traits.flags
        if "unsolved" in flags:
            timeout = float(body.get("maxTimeout", 60000)) / 1000
            return self._failed(f"Error solving the challenge. Timeout after {timeout} seconds.")
        read = _PAGES.get(urlsplit(body["url"]).path)
        text = "<html><body>Not found</body></html>"
        if "halfsolved" in flags:
            text = bytes(challenge(200).body).decode()
        elif read is not None:
            text = _SHOWN.format(text=html.escape(json.dumps(read(caller, account))))
        met = "gated" in flags or caller.traits.standing == "blocked"
        solution = {
            "url": body["url"],
            "status": 200,
            "headers": {},
            "response": text,
            "cookies": [
                {"name": "cf_clearance", "value": "sandbox", "domain": ".perplexity.ai", "path": "/"}
            ],
            "userAgent": _AGENT,
        }
        message = "Challenge solved!" if met else "Challenge not detected!"
        return self._stamped(200, {"status": "ok", "message": message, "solution": solution})
