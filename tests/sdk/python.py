"""The scenarios of tests/node/responses.mjs by the Python SDKs: what each comes to, as JSON."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import openai
import perplexity

Json = dict[str, Any]
Scene = Callable[[], Any]
UNKNOWN = f"resp_{'0' * 32}"
TERMINAL = ("completed", "failed", "incomplete", "cancelled")
PATIENCE = 60.0
AT_ONCE = 6
TOOL: Json = {
    "type": "function",
    "name": "lookup_inventory",
    "description": "Stock of a SKU.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"sku": {"type": "string", "enum": ["DEMO"]}},
        "required": ["sku"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True, slots=True)
class Engine:
    """How it is asked, in the background too, and the questions that fail, break in the middle, and last."""

    asking: Mapping[str, Any]
    queued: Mapping[str, Any]
    failing: str
    breaking: str
    lasting: str


ENGINES = {
    "research": Engine(
        {"preset": "2m"}, {}, "[sandbox:failed] Why?", "[sandbox:failed] Why?", "[sandbox:stuck] Why?"
    ),
    "chat": Engine(
        {"model": "gpt"},
        {"background": True},
        "[sandbox:web.invalid] Why?",
        "Why? [sandbox:cut-stream=12] [sandbox:pieces=12]",
        "Why? [sandbox:duration=30] [sandbox:pieces=300]",
    ),
}


def client_of(sdk: str, url: str, key: str) -> Any:
    if sdk == "openai":
        return openai.OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)
    return perplexity.Perplexity(api_key=key, base_url=url, max_retries=0)


def play(sdk: str, world: Mapping[str, Any]) -> Json:
    """All scenarios, some at once: name → {value} or {crash}."""
    scenes = {
        f"{name} {outcome}": scene
        for name, engine in ENGINES.items()
        for outcome, scene in _Player(sdk, world, name, engine).scenes().items()
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(scenes, pool.map(_played, scenes.values()), strict=True))


def _played(scene: Scene) -> Json:
    try:
        return {"value": scene()}
    except Exception:  # whatever it is, its test tells it
        return {"crash": traceback.format_exc()}


class _Player:
    """One SDK and one engine."""

    def __init__(self, sdk: str, world: Mapping[str, Any], name: str, engine: Engine) -> None:
        self._engine, self._name, self._world = engine, name, world
        self._by = partial(client_of, sdk, world["url"])
        self._client = self._by(world["key"])
        self._once = {"Idempotency-Key": f"conflict-{sdk}-python-{name}"}

    def scenes(self) -> dict[str, Scene]:
        engine = self._engine
        common: dict[str, Scene] = {
            "completed": lambda: self._follow("Why is the sky blue?"),
            "failed": lambda: self._follow(engine.failing),
            "cancelled": self._cancelled,
            "stream completed": lambda: self._stream("Why is the sky blue?"),
            "stream failed": lambda: self._stream(engine.breaking),
            "stream cancelled": self._cancelled_stream,
            "400": lambda: caught(lambda: self._ask(self._client, "")),
            "401": lambda: caught(lambda: self._ask(self._by("sonde_wrong"), "Why?")),
            "404": lambda: caught(lambda: self._client.responses.retrieve(UNKNOWN)),
            "413": lambda: caught(lambda: self._ask(self._client, "x" * self._world["tooLarge"])),
            "422": self._conflict,
        }
        own: dict[str, dict[str, Scene]] = {
            "research": {
                "incomplete": lambda: self._follow("[sandbox:incomplete] Why?"),
                "stream incomplete": lambda: self._stream("[sandbox:incomplete] Why?"),
                "429": self._limited,
            },
            "chat": {
                "429": lambda: caught(lambda: self._ask(self._by(self._world["poor"]), "Why?")),
                "functions": self._functions,
            },
        }
        return common | own[self._name]

    def _ask(self, client: Any, said: Any, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
        """`stream` is the SDK's own argument; the rest goes into the body as it is."""
        own = {"stream": True} if more.pop("stream", False) else {}
        return client.responses.create(
            input=said, extra_body={**self._engine.asking, **more}, extra_headers=headers, **own
        )

    def _end(self, id: str) -> Json:
        until = time.monotonic() + PATIENCE
        while (seen := self._client.responses.retrieve(id)).status not in TERMINAL:
            assert time.monotonic() < until, f"it is still {seen.status}"
            time.sleep(0.1)
        return told(seen)

    def _follow(self, said: str) -> Json:
        created = self._ask(self._client, said, **self._engine.queued)
        return {"created": told(created), "done": self._end(created.id)}

    def _cancelled(self) -> Json:
        created = self._ask(self._client, self._engine.lasting, **self._engine.queued)
        stopping = told(self._client.responses.cancel(created.id))
        return {"created": told(created), "stopping": stopping, "done": self._end(created.id)}

    def _stream(self, said: str) -> Json:
        return self._read(self._ask(self._client, said, stream=True))

    def _cancelled_stream(self) -> Json:
        def stop(event: Any) -> None:
            if event.type == "response.created":
                self._client.responses.cancel(event.response.id)

        return self._read(
            self._ask(self._client, self._engine.lasting, **self._engine.queued, stream=True), stop
        )

    def _read(self, stream: Any, see: Callable[[Any], None] = lambda event: None) -> Json:
        events = []
        for event in stream:
            see(event)
            events.append(told(event))
        return {"events": events, "final": told(self._client.responses.retrieve(events[0]["response"]["id"]))}

    def _conflict(self) -> Json:
        def ask(said: str) -> Any:
            return self._ask(self._client, said, self._once, **self._engine.queued)

        return {"same": ask("Why?").id == ask("Why?").id, **caught(lambda: ask("How?"))}

    def _limited(self) -> Json:
        client = self._by(self._world["hasty"])
        while True:
            refused = caught(lambda: client.responses.retrieve(UNKNOWN))
            if refused["status"] != 404:
                return refused

    def _functions(self) -> Json:
        said = "Use lookup_inventory to check the current stock count for DEMO."
        first = self._ask(self._client, said, tools=[TOOL])
        outputs = [
            {
                "type": "function_call_output",
                "call_id": item.call_id,
                "output": json.dumps({**json.loads(item.arguments), "quantity": 7}),
            }
            for item in first.output
            if item.type == "function_call"
        ]
        last = self._ask(self._client, outputs, previous_response_id=first.id)
        return {"first": told(first), "last": told(last)}


def told(answer: Any) -> Json:
    """What came over the wire. OpenAI's types know no search results and would warn of them."""
    whole: Json = answer.to_dict(mode="json", warnings=False)
    return whole


def caught(call: Scene) -> Json:
    """The error that `call` ends in, as tests/node/world.mjs tells it."""
    try:
        call()
    except (openai.APIStatusError, perplexity.APIStatusError) as error:
        headers = error.response.headers
        return {
            "class": type(error).__name__,
            "status": error.status_code,
            "body": error.body,
            "retryAfter": headers.get("retry-after"),
            "requestId": headers.get("x-request-id"),
        }
    raise AssertionError("nothing was raised")
