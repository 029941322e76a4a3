"""The list of models and the Search API (perplexity-api §5.10), as small as they can be and still right."""

from __future__ import annotations

import uuid
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response

from sandbox.agent_shapes import result
from sandbox.bodies import read_body
from sandbox.findings import findings
from sandbox.sonar_request import invalid, read_object
from sandbox.wire import reply
from sandbox.world import World, script_for

_MODELS = (
    ("openai/gpt-6-luna", "1.25", "10", "0.125"),
    ("anthropic/claude-sonnet-5", "3", "15", "0.3"),
    ("google/gemini-3.1-pro", "2", "12", "0.2"),
    ("xai/grok-4.6", "3", "15", "0.75"),
    ("perplexity/sonar", "1", "1", "0.1"),
)
_RESULTS = 10


def _model(name: str, read: str, written: str, cached: str) -> dict[str, object]:
    pricing = {"input": Decimal(read), "output": Decimal(written), "cache_read": Decimal(cached)}
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": name.partition("/")[0],
        "pricing": {**pricing, "unit": "usd_per_1m_tokens"},
    }


class CatalogDoor:
    """Both live in every mode: neither was part of Sonar's retirement."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def models(self, _request: Request, _account: str) -> Response:
        return reply(200, {"object": "list", "data": [_model(*model) for model in _MODELS]})

    async def search(self, request: Request, _account: str) -> Response:
        """One flat list of results, also for a list of queries."""
        body = read_object(await read_body(request))
        given = body.get("query")
        queries = [given] if isinstance(given, str) else given
        if not isinstance(queries, list) or not queries or not all(isinstance(q, str) and q for q in queries):
            raise invalid(["query"], "Input should be a string or a list of strings", "string_type")
        limit = body.get("max_results", _RESULTS)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 20:
            raise invalid(["max_results"], "Input should be between 1 and 20", "out_of_range")
        self._world.store.tally("search")
        found = []
        for query in queries:
            script_for(query, "agent")
            for number, source in enumerate(findings(query, "agent").sources):
                entry = result(number + 1, source)
                found.append({name: entry[name] for name in entry if name not in ("id", "source")})
        return reply(200, {"id": str(uuid.uuid4()), "results": found[:limit]})
