"""What was said and called before, as the bridge tells it to the model (proxy-contract §9, "Continuation").

Both doors bring their conversation into these three kinds of turns, and one rule holds for both: each
output answers a call that is waiting for it, no call is left waiting, and the last word is the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.wire.errors import BadRequest
from proxy.protocol.response_object import FunctionCall

LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class Said:
    """A message. `role` is system, developer, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Returned:
    """What the client's own function gave."""

    call_id: str
    output: str


Turn = Said | FunctionCall | Returned


def as_json(turn: Turn) -> dict[str, Any]:
    """The item as the model reads it."""
    match turn:
        case Said():
            return {"type": "message", "role": turn.role, "content": turn.text}
        case FunctionCall():
            return {
                "type": "function_call",
                "call_id": turn.call_id,
                "name": turn.name,
                "arguments": turn.arguments,
            }
        case Returned():
            return {"type": "function_call_output", "call_id": turn.call_id, "output": turn.output}


def check_turns(turns: Sequence[Turn], param: str) -> None:
    """Raises BadRequest with `param` when the calls and their outputs do not fit together."""
    known: set[str] = set()
    waiting: set[str] = set()
    for turn in turns:
        if isinstance(turn, FunctionCall):
            if turn.call_id in known:
                raise BadRequest("Two function calls have the same id.", param=param)
            known.add(turn.call_id)
            waiting.add(turn.call_id)
        elif isinstance(turn, Returned):
            if turn.call_id not in waiting:
                raise BadRequest("A function's output answers no call that waits for it.", param=param)
            waiting.remove(turn.call_id)
    if waiting:
        raise BadRequest("Each function call needs its output before the next answer.", param=param)
    if not turns or not _is_callers(turns[-1]):
        raise BadRequest(
            "The last item must be a user message that is not empty, or a function's output.", param=param
        )


def _is_callers(turn: Turn) -> bool:
    return isinstance(turn, Returned) or (
        isinstance(turn, Said) and turn.role == "user" and bool(turn.text.strip())
    )


def last_question(turns: Iterable[Turn]) -> str:
    """What the user said last; "" for nothing."""
    said = [turn.text for turn in turns if isinstance(turn, Said) and turn.role == "user"]
    return said[-1] if said else ""


def read_call(call_id: object, name: object, arguments: object, param: str) -> FunctionCall:
    """A call that a client repeats. Raises BadRequest with `param`."""
    if not isinstance(name, str) or not name or len(name) > LONGEST_ID:
        raise BadRequest("A function call needs the name of its function.", param=param)
    if not isinstance(arguments, str) or not _is_object(arguments):
        raise BadRequest("The arguments of a function call must be a JSON object, as a string.", param=param)
    return FunctionCall(read_call_id(call_id, param), name, arguments)


def read_call_id(value: object, param: str) -> str:
    """Raises BadRequest with `param`."""
    if not isinstance(value, str) or not value or len(value) > LONGEST_ID:
        raise BadRequest("A function call and its output need the id of the call.", param=param)
    return value


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), Mapping)
    except (ValueError, RecursionError):
        return False
