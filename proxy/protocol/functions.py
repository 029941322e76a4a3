"""Functions that a caller offers to the model, and how it may call them (proxy-contract §9).

    tools, tool_choice, parallel_tool_calls → Offer
    Offer + what was said → functions_prompt.query        what the model is asked
    Offer + what it answers → functions_answer.read       calls, or a message, or a violation

Both shapes are read here: the flat one of Responses and the nested one of Chat Completions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from portal.wire.errors import BadRequest
from portal.wire.fields import is_plain_name

if TYPE_CHECKING:
    from proxy.protocol.functions_schema import ArgumentSchema, Together

Shape = Literal["flat", "nested"]
Choice = Literal["auto", "required", "none", "named"]
EXPERIMENTAL_HEADER = "x-sonde-experimental"
EXPERIMENTAL = "function-tools"
"""The header and its value on every answer of the bridge: a model may break its rules at any time."""
MOST_FUNCTIONS = 128
NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
_UNSOUND = re.compile("[\0\ud800-\udfff]")
_CHOICES: tuple[Choice, ...] = ("auto", "required", "none")


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    description: str
    arguments: ArgumentSchema
    strict: bool = False

    def as_json(self) -> dict[str, Any]:
        """As the model is told of it."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.arguments.schema),
            "strict": self.strict,
        }


@dataclass(frozen=True, slots=True)
class Offer:
    """The functions in question. `named` is the one that must be called when `choice` is `named`."""

    functions: tuple[Function, ...] = ()
    choice: Choice = "auto"
    named: str = ""
    parallel: bool = True

    @property
    def allowed(self) -> tuple[Function, ...]:
        """Those that may be called now."""
        if self.choice == "none":
            return ()
        if self.choice == "named":
            return tuple(function for function in self.functions if function.name == self.named)
        return self.functions

    @property
    def must_call(self) -> bool:
        return self.choice in ("required", "named")

    @property
    def one_call(self) -> bool:
        return self.choice == "named" or not self.parallel

    def silenced(self) -> Offer:
        """The same for a continuation that does not repeat the definitions: nothing may be called."""
        return replace(self, choice="none", named="")


def read_offer(tools: Sequence[object], choice: object, shape: Shape, *, parallel: bool = True) -> Offer:
    """The offer. `tools` are function tools only. Raises BadRequest with `param` tools or tool_choice."""
    if len(tools) > MOST_FUNCTIONS:
        raise _bad(f"tools must have at most {MOST_FUNCTIONS} functions.")
    functions = tuple(_functions(tools, shape)) if tools else ()
    names = [function.name for function in functions]
    for name in names:
        if names.count(name) > 1:
            raise _bad(f"tools names the function {name} more than once.")
    picked, named = _choice(choice, shape)
    if picked == "named" and named not in names:
        raise _bad("tool_choice names a function that is not in tools.", "tool_choice")
    if picked == "required" and not functions:
        raise _bad("tool_choice cannot be required without a function in tools.", "tool_choice")
    return Offer(functions, picked, named, parallel)


def _bad(message: str, param: str = "tools") -> BadRequest:
    return BadRequest(message, param=param)


def _functions(tools: Sequence[object], shape: Shape) -> Iterator[Function]:
    # Loaded with the first function that is offered: what reads schemas takes a twentieth of a start.
    from proxy.protocol.functions_schema import Together  # noqa: PLC0415

    together = Together()
    for number, tool in enumerate(tools):
        yield _function(tool, f"tools[{number}]", shape, together)


def _function(tool: object, where: str, shape: Shape, together: Together) -> Function:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise _bad(f"{where} must be a function: other kinds of tools are not supported.")
    given = tool.get("function") if shape == "nested" else tool
    if not isinstance(given, dict):
        raise _bad(f"{where}.function must be an object.")
    where = f"{where}.function" if shape == "nested" else where
    name, description, strict = given.get("name"), given.get("description"), given.get("strict")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _bad(f"{where}.name must be 1 to 64 letters, digits, underscores and hyphens.")
    if description is not None and (not isinstance(description, str) or _UNSOUND.search(description)):
        raise _bad(f"{where}.description must be a text.")
    if strict is not None and not isinstance(strict, bool):
        raise _bad(f"{where}.strict must be true or false.")
    from proxy.protocol.functions_schema import SchemaRefused, read_schema  # noqa: PLC0415

    parameters = NO_ARGUMENTS if given.get("parameters") is None else given["parameters"]
    try:
        arguments = read_schema(parameters, strict=strict or False, together=together)
    except SchemaRefused as refused:
        raise _bad(f"{where}.parameters {refused}.") from None
    return Function(name, description or "", arguments, strict or False)


def _choice(choice: object, shape: Shape) -> tuple[Choice, str]:
    if choice is None:
        return "auto", ""
    for word in _CHOICES:
        if choice == word:
            return word, ""
    if isinstance(choice, dict) and choice.get("type") == "function":
        given = choice.get("function") if shape == "nested" else choice
        name = given.get("name") if isinstance(given, dict) else None
        if isinstance(name, str):
            return "named", name
    shown = choice if isinstance(choice, str) and is_plain_name(choice) else "this"
    raise _bad(f"tool_choice cannot be {shown}: use auto, required, none, or name a function.", "tool_choice")
