"""An ntfy server that keeps what is published (perplexity-web §16); a topic tells what it does.

`busy…` answers 429, `locked…` 401, `forbidden…` 403.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from starlette.responses import Response

from sandbox.web.visits import Visit, WebBackend
from sandbox.wire import reply
from sandbox.world import Refused

_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}", re.ASCII)
_PRIORITIES = {"min": 1, "low": 2, "default": 3, "high": 4, "max": 5, "urgent": 5}
_LIMIT = 4096
_TROUBLES = {
    "busy": (42901, 429, "limit reached: too many requests"),
    "locked": (40101, 401, "unauthorized"),
    "forbidden": (40301, 403, "forbidden"),
}


def _error(code: int, status: int, text: str) -> Refused:
    return Refused(
        reply(status, {"code": code, "http": status, "error": text, "link": "https://ntfy.sh/docs"})
    )


def _priority(given: Any) -> int:
    if given in (None, ""):
        return 3
    number = _PRIORITIES.get(str(given).lower(), given)
    if not str(number).isdigit() or not 1 <= int(number) <= 5:
        raise _error(40007, 400, "invalid request: priority invalid")
    return int(number)


def _list(given: Any) -> list[str]:
    return (
        given
        if isinstance(given, list)
        else [part.strip() for part in (given or "").split(",") if part.strip()]
    )


def _actions(given: Any) -> list[dict[str, str]]:
    """`view, label, url` and the like, several with semicolons between; or a list from a JSON body."""
    if isinstance(given, list):
        return given
    found = []
    for action in filter(None, (given or "").split(";")):
        kind, label, url = [part.strip() for part in (action + ",,").split(",")[:3]]
        if not label or not url:
            raise _error(40018, 400, "invalid request: actions invalid")
        found.append({"action": kind, "label": label, "url": url})
    return found


def _in_headers(visit: Visit) -> dict[str, str | None]:
    """Each under its own name or with X- before it, as ntfy takes them; also beside a JSON document."""
    headers = visit.request.headers
    names = ("title", "priority", "tags", "actions", "click")
    return {name: headers.get(f"x-{name}") or headers.get(name) for name in names}


class MessageDoor:
    """Both forms of publishing: the body with headers, and one JSON document."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend = backend

    async def publish(self, visit: Visit) -> Response:
        given = {**_in_headers(visit), "message": visit.body.decode(errors="replace")}
        return self._keep(visit.request.path_params["topic"], given)

    async def publish_json(self, visit: Visit) -> Response:
        given = visit.json()
        if not isinstance(given, dict):
            raise _error(40024, 400, "invalid request: request body must be message in JSON")
        said = {name: value for name, value in given.items() if value}
        return self._keep(str(given.get("topic", "")), {**_in_headers(visit), **said})

    def _keep(self, topic: str, given: dict[str, Any]) -> Response:
        if not _TOPIC.fullmatch(topic):
            raise _error(40009, 400, "invalid request: topic invalid")
        for beginning, trouble in _TROUBLES.items():
            if topic.startswith(beginning):
                raise _error(*trouble)
        now = self._backend.world.clock()
        text = str(given.get("message") or "triggered")
        message = {
            "id": uuid.uuid4().hex[:12],
            "time": int(now),
            "expires": int(now) + 43200,
            "event": "message",
            "topic": topic,
            "title": given.get("title"),
            "message": text if len(text.encode()) <= _LIMIT else "You received a file: attachment.txt",
            "priority": _priority(given.get("priority")),
            "tags": _list(given.get("tags")),
            "actions": _actions(given.get("actions")),
            "click": given.get("click"),
        }
        if len(text.encode()) > _LIMIT:
            message["attachment"] = {
                "name": "attachment.txt",
                "type": "text/plain",
                "size": len(text.encode()),
            }
        self._backend.store.add_message(now, topic, message)
        return reply(200, {name: value for name, value in message.items() if value is not None})
