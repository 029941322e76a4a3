"""Function tools through Responses: what was called before, and what is asked then (proxy-contract §9).

A response keeps what it goes on from as short lists of words: `[role, text]` for a message, and a call
or its output with the type of its item in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from portal.wire.errors import BadRequest
from proxy.protocol.chat_messages import ChatMessage
from proxy.protocol.conversation import Role
from proxy.protocol.functions import read_offer
from proxy.protocol.functions_prompt import Bridge, bridge
from proxy.protocol.functions_turns import Returned, Said, Turn, read_call
from proxy.protocol.response_input import messages_of
from proxy.protocol.response_object import FunctionCall, Json
from proxy.protocol.responses import ResponsesRequest

PARAM = "input"
_CALL, _OUTPUT = "function_call", "function_call_output"


@dataclass(frozen=True, slots=True)
class Past:
    """What a response goes on from. `functions` are the definitions that the response before it had."""

    turns: tuple[Turn, ...] = ()
    functions: tuple[Json, ...] = ()

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The same for a prompt without functions."""
        return messages_of(map(_item, self.turns))


def read_bridge(request: ResponsesRequest, past: Past) -> Bridge | None:
    """None when functions play no part. Raises BadRequest.

    A request that goes on without definitions keeps those before it, but nothing may be called then.
    """
    new = turns_of(item.data for item in request.items)
    functions = request.functions or past.functions
    if not functions:
        if any(not isinstance(turn, Said) for turn in new):
            raise BadRequest("Function calls and their outputs need the functions in tools.", param="tools")
        return None
    if request.format_instructions:
        raise BadRequest("text.format must be text when there are function tools", param="text.format")
    offer = read_offer(functions, request.tool_choice, "flat", parallel=request.parallel_tool_calls)
    offer = offer if request.functions else offer.silenced()
    for turn in new:
        if isinstance(turn, FunctionCall):
            read_call(turn.call_id, turn.name, turn.arguments, PARAM)
    return bridge(offer, request.instructions, (*past.turns, *new), PARAM)


def functions_of(tools: Iterable[Json]) -> tuple[Json, ...]:
    """The definitions among the tools that a response repeats."""
    return tuple(tool for tool in tools if tool["type"] == "function")


def turns_of(items: Iterable[Json]) -> tuple[Turn, ...]:
    """Of normalised items, of input and output alike; those that nobody said or called are left out."""
    turns: list[Turn] = []
    for item in items:
        if item["type"] == _CALL:
            turns.append(FunctionCall(item["call_id"], item["name"], item["arguments"]))
        elif item["type"] == _OUTPUT:
            turns.append(Returned(item["call_id"], item["output"]))
        else:
            turns += (Said(message.role, message.text) for message in messages_of([item]))
    return tuple(turns)


def as_said(turns: Iterable[Turn]) -> list[list[str]]:
    """As a response keeps them."""
    return [_words(turn) for turn in turns]


def _words(turn: Turn) -> list[str]:
    match turn:
        case Said():
            return [turn.role, turn.text]
        case FunctionCall():
            return [_CALL, turn.call_id, turn.name, turn.arguments]
        case Returned():
            return [_OUTPUT, turn.call_id, turn.output]


def from_said(said: Iterable[Sequence[str]]) -> tuple[Turn, ...]:
    return tuple(map(_turn, said))


def _turn(words: Sequence[str]) -> Turn:
    kind, *rest = words
    if kind == _CALL:
        return FunctionCall(*rest)
    if kind == _OUTPUT:
        return Returned(*rest)
    return Said(cast(Role, kind), *rest)


def _item(turn: Turn) -> Json:
    match turn:
        case Said():
            return {
                "type": "message",
                "role": turn.role,
                "content": [{"type": "input_text", "text": turn.text}],
            }
        case FunctionCall():
            return {"type": _CALL}
        case Returned():
            return {"type": _OUTPUT, "call_id": turn.call_id, "output": turn.output}
