"""Function tools in Chat Completions, in and out (proxy-contract §9, openai-compat §2). Experimental.

Nothing is told before the whole answer is known to be sound, so a stream is made in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from portal.wire.errors import BadRequest
from proxy.protocol.chat_messages import ChatMessage, read_message, text_of
from proxy.protocol.chat_stream import ChatHead, Json, usage
from proxy.protocol.functions import Offer, read_offer
from proxy.protocol.functions_answer import BridgeAnswer, Called
from proxy.protocol.functions_prompt import Bridge, bridge
from proxy.protocol.functions_turns import Returned, Said, Turn, read_call, read_call_id
from proxy.protocol.response_object import FunctionCall

PARAM = "messages"
_encode = msgspec.json.Encoder().encode


def read_tools(values: Mapping[str, object]) -> Offer | None:
    """What the request offers; None without a function. Raises BadRequest."""
    if values.get("functions") or values.get("function_call") not in (None, "none", "auto"):
        message = "functions and function_call are not supported: use tools and tool_choice."
        raise BadRequest(message, param="tools")
    tools = values.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise BadRequest("tools must be a list.", param="tools")
    parallel = values.get("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        raise BadRequest("parallel_tool_calls must be true or false.", param="parallel_tool_calls")
    offer = read_offer(tools or (), values.get("tool_choice"), "nested", parallel=parallel is not False)
    return offer if offer.functions else None


def read_bridge(value: object, offer: Offer | None) -> tuple[tuple[ChatMessage, ...], Bridge | None]:
    """The messages that hold words, and the bridge when functions play a part. Raises BadRequest."""
    if not isinstance(value, list) or not value:
        raise BadRequest("messages must be a list of at least one message.", param=PARAM)
    messages: list[ChatMessage] = []
    turns: list[Turn] = []
    for given in value:
        if isinstance(given, dict) and (given.get("role") == "tool" or given.get("tool_calls")):
            turns += _function_turns(given)
            continue
        message = read_message(given)
        messages.append(message)
        turns.append(Said(message.role, message.text))
    if offer is None:
        if any(not isinstance(turn, Said) for turn in turns):
            raise BadRequest("Messages with tool calls need the functions in tools.", param="tools")
        return tuple(messages), None
    spoken = [turn for turn in turns if not (isinstance(turn, Said) and turn.role in ("system", "developer"))]
    instructions = "\n".join(one.text for one in messages if one.role in ("system", "developer"))
    return tuple(messages), bridge(offer, instructions, spoken, PARAM)


def _function_turns(message: Mapping[str, object]) -> Iterator[Turn]:
    """A message of the role tool, or one of the assistant with its calls."""
    content = message.get("content")
    text = "" if content is None else text_of(content)
    if message.get("role") == "tool":
        if content is None:
            raise BadRequest("A tool message needs its content.", param=PARAM)
        yield Returned(read_call_id(message.get("tool_call_id"), PARAM), text)
        return
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list):
        raise BadRequest("tool_calls must be a list, in a message of the assistant.", param=PARAM)
    if text.strip():
        yield Said("assistant", text)
    for call in calls:
        function = call.get("function") if isinstance(call, dict) and call.get("type") == "function" else None
        if not isinstance(function, dict):
            raise BadRequest("Each of tool_calls must be a function.", param=PARAM)
        yield read_call(call.get("id"), function.get("name"), function.get("arguments"), PARAM)


def whole(head: ChatHead, answer: BridgeAnswer, query_characters: int, sonde: Json) -> bytes:
    """The plain answer."""
    message: dict[str, object] = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    if isinstance(answer, Called):
        message["tool_calls"] = [_call(call) for call in answer.calls]
    else:
        message["content"] = answer.text
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
    body: dict[str, object] = {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": None,
        "choices": [choice],
        "usage": usage(query_characters, _spoken(answer)),
    }
    return _encode(body | {"sonde": sonde} if sonde else body)


def streamed(head: ChatHead, answer: BridgeAnswer, query_characters: int, sonde: Json) -> bytes:
    """The whole stream: role, calls or text, finish, usage when it was asked for, `[DONE]`."""
    chunks = [_chunk(head, delta) for delta in ({"role": "assistant"}, *_deltas(answer))]
    last = _chunk(head, {}, _finish(answer))
    chunks.append({**last, "sonde": sonde} if sonde else last)
    if head.include_usage:
        closing = {"choices": [], "usage": usage(query_characters, _spoken(answer))}
        chunks.append({**_chunk(head, {}), **closing})
    return b"".join(b"data: %b\n\n" % _encode(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def _deltas(answer: BridgeAnswer) -> Sequence[Json]:
    """Of each call first its names, then its arguments, as clients put them together (openai-compat §2.3)."""
    if not isinstance(answer, Called):
        return ({"content": answer.text},)
    deltas: list[Json] = []
    for index, call in enumerate(answer.calls):
        begun = _call(FunctionCall(call.call_id, call.name, ""))
        deltas.append({"tool_calls": [{"index": index, **begun}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": call.arguments}}]})
    return deltas


def _call(call: FunctionCall) -> Json:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _chunk(head: ChatHead, delta: Json, finish_reason: str | None = None) -> dict[str, object]:
    chunk: dict[str, object] = {
        "id": head.id,
        "object": "chat.completion.chunk",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": None,
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
    }
    return chunk | {"usage": None} if head.include_usage else chunk


def _finish(answer: BridgeAnswer) -> str:
    return "tool_calls" if isinstance(answer, Called) else "stop"


def _spoken(answer: BridgeAnswer) -> str:
    """What counts as completion."""
    if isinstance(answer, Called):
        return "".join(call.name + call.arguments for call in answer.calls)
    return answer.text
