"""Reading the body of an ask (perplexity-web §4) as strictly as it takes to make regressions show (§17.8)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sandbox.wire import reply
from sandbox.world import Refused

_TEXTS = (
    "frontend_uuid",
    "language",
    "mode",
    "source",
    "search_focus",
    "timezone",
    "model_preference",
    "version",
    "last_backend_uuid",
    "read_write_token",
)
_FLAGS = ("is_incognito", "use_schematized_api", "send_back_text_in_streaming_api")
_LISTS = ("attachments", "sources", "supported_block_use_cases", "compare_model_preferences")
_NEEDED = ("search_focus", "version", "model_preference")


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. `question` is the last thing the user said, `earlier` what the user said before as far as
    the client sent it along, `bridge` the whole document of a request with functions."""

    query: str
    question: str
    earlier: tuple[str, ...]
    bridge: dict[str, Any] | None
    params: dict[str, Any]

    @property
    def preference(self) -> str:
        found: str = self.params["model_preference"]
        return found

    @property
    def previous(self) -> str | None:
        found: str | None = self.params.get("last_backend_uuid")
        return found

    @property
    def token(self) -> str | None:
        found: str | None = self.params.get("read_write_token")
        return found

    @property
    def use_cases(self) -> frozenset[str]:
        return frozenset(self.params.get("supported_block_use_cases") or ())

    @property
    def wants_text(self) -> bool:
        return self.params.get("send_back_text_in_streaming_api") is True

    @property
    def wants_blocks(self) -> bool:
        return self.params.get("use_schematized_api", True) is True


def rejected(message: str, status: int = 400) -> Refused:
    return Refused(reply(status, {"detail": message}))


def _text(item: object) -> str:
    """The text of a message's content, a string or a list of parts."""
    if isinstance(item, str):
        return item
    if isinstance(item, list):
        return " ".join(filter(None, map(_text, item)))
    if isinstance(item, dict):
        return _text(item.get("text") or item.get("content") or item.get("output") or "")
    return ""


def _user_texts(items: object) -> list[str]:
    """What the user said, in order, in a list of messages."""
    found = items if isinstance(items, list) else [items]
    return [
        _text(item)
        for item in found
        if isinstance(item, str) or (isinstance(item, dict) and item.get("role") == "user")
    ]


def _document(query: str) -> dict[str, Any] | None:
    if not query.startswith("{"):
        return None
    try:
        found = json.loads(query)
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"query", "input"} & set(found) else None


def _understood(query: str, params: dict[str, Any]) -> Ask:
    document = _document(query)
    if document is None:
        return Ask(query, query, (), None, params)
    if "input" in document:
        said = _user_texts(document["input"]) or [""]
        return Ask(query, said[-1], tuple(said[:-1]), document, params)
    return Ask(query, _text(document["query"]), tuple(_user_texts(document.get("history", []))), None, params)


def _check_kinds(params: dict[str, Any]) -> None:
    for names, kind in ((_TEXTS, str), (_FLAGS, bool), (_LISTS, list)):
        for name in names:
            if params.get(name) is not None and not isinstance(params[name], kind):
                raise rejected(f"params.{name} has the wrong type", 422)


def read_ask(body: Any, version: str | None) -> Ask:
    """The decoded body; raises Refused with 400 or 422. A `version` of None accepts any."""
    if not isinstance(body, dict) or set(body) != {"query_str", "params"}:
        raise rejected("the body has exactly query_str and params")
    query, params = body["query_str"], body["params"]
    if not isinstance(query, str) or not query.strip() or not isinstance(params, dict):
        raise rejected("query_str is a text, params an object")
    for name in _NEEDED:
        if not params.get(name):
            raise rejected(f"params.{name} is missing")
    _check_kinds(params)
    if version is not None and params["version"] != version:
        raise rejected(f"version {params['version']} is no longer served")
    return _understood(query, params)
