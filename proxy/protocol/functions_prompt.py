"""The question that offers functions: the rules, the functions, and all that was said (proxy-contract §9).

Perplexity has no function calling of its own. The model is told in words to answer with one JSON
document, and `functions_answer` believes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from portal.wire.errors import BadRequest
from proxy.protocol.conversation import LONGEST_QUERY
from proxy.protocol.functions import Offer
from proxy.protocol.functions_turns import Turn, as_json, check_turns, last_question

CALLS = '{"type": "function_calls", "calls": [{"name": "<function>", "arguments": {<its arguments>}}]}'
MESSAGE = '{"type": "message", "content": "<your answer to the user>"}'


def rules(offer: Offer) -> str:
    """What the model is told of its answer, and of the functions that it may call."""
    functions = [function.as_json() for function in offer.allowed]
    return "\n".join(
        (
            "You are connected to a program, not to a person. Your whole answer must be one JSON document in "
            "one of these forms, with no other keys, no text around it, no Markdown and no citation marks:",
            *_forms(offer),
            *_limits(offer),
            "The arguments must be valid by the function's JSON Schema in parameters. The program carries "
            "out the calls and sends their results as function_call_output items in input.",
            f"Functions you may call: {json.dumps(functions, ensure_ascii=False)}",
        )
    )


def _forms(offer: Offer) -> tuple[str, ...]:
    if not offer.allowed:
        return (MESSAGE,)
    return (CALLS,) if offer.must_call else (CALLS, MESSAGE)


def _limits(offer: Offer) -> tuple[str, ...]:
    if not offer.allowed:
        return ("You must not call any function.",)
    said = ["You must call a function."] if offer.must_call else []
    if offer.one_call:
        said.append("There must be exactly one entry in calls.")
    return tuple(said)


@dataclass(frozen=True, slots=True)
class Bridge:
    """A question with functions. `query` is its `query_str`, `question` what the user said last."""

    offer: Offer
    query: str
    question: str

    def named(self, before: str, after: str, param: str) -> Bridge:
        """With `after` wherever it says `before`. Raises BadRequest with `param` when it gets too long."""
        query = self.query.replace(_inside(before), _inside(after))
        return replace(self, query=_fitting(query, param), question=self.question.replace(before, after))


def bridge(offer: Offer, instructions: str, turns: Sequence[Turn], param: str) -> Bridge:
    """The caller's `instructions` go along as they are. Raises BadRequest with `param` when the turns do
    not fit together, or are too long.
    """
    check_turns(turns, param)
    return Bridge(offer, _query(offer, instructions, turns, param), last_question(turns))


def _query(offer: Offer, instructions: str, turns: Sequence[Turn], param: str) -> str:
    told = [rules(offer), *([instructions] if instructions.strip() else [])]
    document = {"instructions": told, "input": [as_json(turn) for turn in turns]}
    return _fitting(json.dumps(document, ensure_ascii=False), param)


def _inside(text: str) -> str:
    """As it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _fitting(text: str, param: str) -> str:
    if len(text) > LONGEST_QUERY:
        raise BadRequest(
            f"The conversation and its functions have {len(text):,} characters; at most "
            f"{LONGEST_QUERY:,} can be sent.",
            param=param,
            code="context_length_exceeded",
        )
    return text
