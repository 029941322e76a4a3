"""The model's whole answer → calls, or a message, or a violation (proxy-contract §9, "Model output").

Exactly one JSON document in exactly one of two forms, to the letter. What is not that is no answer:
nothing is mended, asked again, or handed on as plain text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from proxy.protocol.functions import Function, Offer
from proxy.protocol.response_object import FunctionCall
from proxy.protocol.verdicts import UpstreamFailed

CODE = "tool_protocol_error"
LONGEST_ANSWER = 200_000
"""Characters: more than any model says, and quickly read."""
DEEPEST = 100
_UNSOUND = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Spoken:
    """The model answers in words."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The model asks for calls: at least one."""

    calls: tuple[FunctionCall, ...]


BridgeAnswer = Spoken | Called


class Violation(UpstreamFailed):
    """502: the model did not keep to the rules. Repeating the request costs another use of the account."""


def violation(why: str) -> Violation:
    message = f"The model broke the protocol of function calls: {why}."
    return Violation(message, code=CODE, headers={"x-should-retry": "false"})


def read_answer(text: str, offer: Offer, subject: str) -> BridgeAnswer:
    """What the model asks for. `text` is raw: not cleaned. Ids of calls follow from `subject`, which no
    other answer has. Raises Violation.
    """
    document = _read_json(text)
    if not isinstance(document, dict):
        raise violation("the answer is no JSON object")
    kind = document.get("type")
    if kind == "message":
        return _message(document, offer)
    if kind == "function_calls":
        return _calls(document, offer, subject)
    raise violation("the answer is neither a message nor function calls")


def _message(document: dict[str, Any], offer: Offer) -> Spoken:
    _only(document, "type", "content")
    content = document["content"]
    if not isinstance(content, str) or not content.strip() or "\0" in content:
        raise violation("the content of the message is no text")
    if offer.must_call:
        raise violation("it said something where a call was required")
    return Spoken(content)


def _calls(document: dict[str, Any], offer: Offer, subject: str) -> Called:
    _only(document, "type", "calls")
    calls = document["calls"]
    if not isinstance(calls, list) or not calls:
        raise violation("there are no calls in it")
    if not offer.allowed:
        raise violation("it called a function where none was allowed")
    if offer.one_call and len(calls) > 1:
        raise violation("it made several calls where one was allowed")
    allowed = {function.name: function for function in offer.allowed}
    return Called(tuple(_call(call, allowed, f"{subject}:{at}") for at, call in enumerate(calls)))


def _call(call: object, allowed: dict[str, Function], place: str) -> FunctionCall:
    if not isinstance(call, dict):
        raise violation("a call is no object")
    _only(call, "name", "arguments")
    name, arguments = call["name"], call["arguments"]
    function = allowed.get(name) if isinstance(name, str) else None
    if function is None:
        raise violation("it called a function that was not offered")
    if not isinstance(arguments, dict):
        raise violation(f"the arguments of {name} are no object")
    if (fault := function.arguments.fault_of(arguments)) is not None:
        raise violation(f"the arguments of {name} do not fit its parameters ({fault})")
    compact = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return FunctionCall("call_" + hashlib.sha256(place.encode()).hexdigest()[:32], function.name, compact)


def _only(value: dict[str, Any], *names: str) -> None:
    if set(value) != set(names):
        raise violation("an object in it has other keys than it should")


def _read_json(text: str) -> object:
    """Stricter than the standard library: no key twice, no NaN, nothing beyond the range of a float."""
    if len(text) > LONGEST_ANSWER:
        raise violation("the answer is too long")
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_float,
            parse_int=_integer,
        )
        whole = json.dumps(document, ensure_ascii=False)
    except (ValueError, RecursionError):
        raise violation("the answer is not one JSON document") from None
    if _UNSOUND.search(whole):
        raise violation("there is half a character in the answer")
    if _depth(document) > DEEPEST:
        raise violation("the answer is nested too deeply")
    return document


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise violation("an object in it has one key twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise violation(f"{word} is no number in JSON")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise violation("a number in it is too large")
    return number


def _integer(text: str) -> int:
    _float(text)
    return int(text)


def _depth(document: object) -> int:
    """Of objects and lists in each other."""
    depth, level = 0, [document]
    while level:
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        depth, level = depth + 1, inner
    return depth
