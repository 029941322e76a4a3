"""The Responses request: what is understood, refused and ignored (proxy-contract §§8.1-8.4).

A control that would change the answer and cannot be honoured is a 400 that names it; one that would
not is listed as ignored. Nothing here asks the upstream or the database: whether the model exists,
and what a chain or a conversation brings along, is for the services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from portal.wire.fields import Fields
from portal.wire.metadata import read_metadata
from portal.wire.sound import flaw_of
from proxy.protocol.chat import SOURCES, ChatRequest, Source
from proxy.protocol.chat_messages import Attachment, ChatMessage
from proxy.protocol.response_input import LONGEST_KEPT, InputItem, check_kept, json_size, read_input
from proxy.protocol.response_object import Json, Prefix, item_id
from proxy.protocol.response_text import TextFormat, read_text
from proxy.protocol.response_tools import Tools, read_tools

LONGEST_WORD = 200
LONGEST_USER = 512
LONGEST_INSTRUCTIONS = LONGEST_KEPT
SEARCH_SOURCES = "web_search_call.action.sources"
IGNORED = (
    "access_programs",
    "background_options",
    "context_management",
    "image",
    "max_tool_calls",
    "moderation",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "stream_options",
    "top_logprobs",
)
"""Known members (openai-compat §3.1) that change nothing here: told in the answer (SPEC 10.9)."""
ID_PREFIXES: Mapping[str, Prefix] = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
}


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """A request that is well-formed.

    `echo` is what every answer repeats of it, ready for `response_object.Head`; base64 is in none of
    it. `functions` are the definitions of function tools as given, empty without any: whether they
    hold is for the function bridge, and so is `tool_choice`.
    """

    model: str
    items: tuple[InputItem, ...]
    echo: Mapping[str, Any]
    thinking: bool = False
    stream: bool = False
    background: bool = False
    store: bool = True
    instructions: str = ""
    previous_response_id: str = ""
    conversation: str = ""
    sources: tuple[Source, ...] = ("web",)
    language: str = "en-US"
    sources_footer: bool | None = None
    format_instructions: tuple[str, ...] = ()
    """What a JSON text format adds to the prompt (§8.3): `extra_instructions` of `prepare`."""
    functions: tuple[Json, ...] = ()
    tool_choice: object = None
    parallel_tool_calls: bool = True
    include_search_sources: bool = False
    ignored: tuple[str, ...] = ()

    def messages(self, history: Iterable[ChatMessage] = ()) -> tuple[ChatMessage, ...]:
        """The prompt: the instructions, then what came before in its chain, then the new input."""
        told = (ChatMessage("system", self.instructions),) if self.instructions else ()
        return (*told, *history, *(item.message for item in self.items if item.message is not None))

    def chat(self, history: Iterable[ChatMessage] = ()) -> ChatRequest:
        """The same for the engine of chat."""
        return ChatRequest(
            self.model,
            self.messages(history),
            stream=self.stream,
            thinking=self.thinking,
            sources=self.sources,
            language=self.language,
            sources_footer=self.sources_footer,
            ignored=self.ignored,
        )

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Of the new input, in its order; their markers stand in the texts."""
        return tuple(one for message in self.messages() for one in message.attachments)

    def input_items(self, response_id: str) -> tuple[Json, ...]:
        """The items as they are stored and listed: each with an id, attachments as their markers."""
        return tuple(
            {"id": item_id(ID_PREFIXES[item.data["type"]], response_id, f"in.{place}"), **item.data}
            for place, item in enumerate(self.items)
        )


def parse_responses(values: Mapping[str, Any], *, default_model: str) -> ResponsesRequest:
    """The request, or the `BadRequest` that names its first wrong field in `param`."""
    body = Fields(values)
    _check_sound(body)
    modes = _modes(body)
    model = body.word("model", longest=LONGEST_WORD) or default_model
    previous = body.word("previous_response_id", longest=LONGEST_WORD) or ""
    user = body.text("user", longest=LONGEST_USER)
    reasoning = body.inner("reasoning")
    thinking = (reasoning.text("effort", longest=LONGEST_WORD) or "none") != "none"
    metadata = read_metadata(body)
    conversation = _conversation(body)
    instructions = _instructions(body)
    tools = read_tools(body)
    _refuse_controls(body)
    text = read_text(body)
    _check_together(body, modes, tools, text, has_two_pasts=bool(previous and conversation))
    included = _included(body)
    return ResponsesRequest(
        model=model,
        items=read_input(body),
        echo={
            **modes,
            "instructions": instructions or None,
            "metadata": metadata,
            "parallel_tool_calls": tools.parallel,
            "reasoning": _echoed_reasoning(reasoning),
            "temperature": values.get("temperature"),
            "text": text.echo,
            "tool_choice": values.get("tool_choice"),
            "tools": tools.echo,
            "top_p": values.get("top_p"),
            "truncation": "disabled",
            "user": user,
        },
        thinking=thinking,
        stream=body.flag("stream") or False,
        background=modes["background"],
        store=modes["store"],
        instructions=instructions,
        previous_response_id=previous,
        conversation=conversation,
        sources=_sources(body),
        language=body.word("language", longest=LONGEST_WORD) or "en-US",
        sources_footer=body.flag("sources_footer"),
        format_instructions=text.instructions,
        functions=tools.functions,
        tool_choice=values.get("tool_choice"),
        parallel_tool_calls=tools.parallel,
        include_search_sources=SEARCH_SOURCES in included,
        ignored=(*_unused(body, included), *tools.ignored, *text.ignored),
    )


def _check_sound(body: Fields) -> None:
    """Of what is repeated as it came."""
    for name in ("text", "tools", "tool_choice"):
        if not body.given(name):
            continue
        if flaw := flaw_of(body.values[name]):
            raise body.refuse(name, flaw)
        check_kept(name, json_size(body.values[name]))


def _modes(body: Fields) -> dict[str, bool]:
    body.flag("stream")
    return {
        "background": body.flag("background") or False,
        "store": body.flag("store") is not False,
    }


def _conversation(body: Fields) -> str:
    """Its id; "" without one."""
    value = body.values.get("conversation")
    if value is None:
        return ""
    named = value.get("id") if isinstance(value, dict) else value
    if not isinstance(named, str) or not named.strip() or len(named) > LONGEST_WORD:
        raise body.refuse("conversation", "must be the id of a conversation, or an object with that id")
    return body.check_text("conversation", named.strip(), LONGEST_WORD)


def _instructions(body: Fields) -> str:
    value = body.values.get("instructions")
    if isinstance(value, list):
        joined = "\n".join(_instruction(body, entry) for entry in value)
        return body.check_text("instructions", joined, LONGEST_INSTRUCTIONS)
    return body.text("instructions", longest=LONGEST_INSTRUCTIONS) or ""


def _instruction(body: Fields, entry: object) -> str:
    """A string, or an object with its words in `content` or `text`."""
    if isinstance(entry, dict):
        entry = entry["content"] if entry.get("content") is not None else entry.get("text")
    if isinstance(entry, list):
        return " ".join(_instruction(body, part) for part in entry if not isinstance(part, list))
    if not isinstance(entry, str):
        raise body.refuse("instructions", "must be a string, or a list of strings and objects with content")
    return body.check_text("instructions", entry, LONGEST_INSTRUCTIONS)


def _refuse_controls(body: Fields) -> None:
    for name in ("temperature", "top_p"):
        value = body.values.get(name)
        if value is not None and (isinstance(value, bool) or value != 1):
            raise body.refuse(name, "cannot be set: the only value is 1")
    if body.given("max_output_tokens"):
        raise body.refuse("max_output_tokens", "is not supported")
    if body.values.get("truncation") not in (None, "disabled"):
        raise body.refuse("truncation", "can only be disabled: nothing is ever cut silently")


def _check_together(
    body: Fields, modes: Mapping[str, bool], tools: Tools, text: TextFormat, *, has_two_pasts: bool
) -> None:
    """Fields that exclude each other."""
    if modes["background"] and not modes["store"]:
        raise body.refuse("store", "must be true in the background: what is not stored cannot be polled")
    if has_two_pasts:
        raise body.refuse("previous_response_id", "cannot be combined with conversation")
    if tools.functions and text.instructions:
        raise body.refuse("text.format", "must be text when there are function tools")
    if tools.functions and isinstance(body.values.get("instructions"), list):
        raise body.refuse("instructions", "must be a string when there are function tools")


def _echoed_reasoning(reasoning: Fields) -> Json:
    return {name: reasoning.text(name, longest=LONGEST_WORD) for name in ("effort", "summary")}


def _sources(body: Fields) -> tuple[Source, ...]:
    given = body.values.get("sources")
    if given is None:
        return ("web",)
    if not isinstance(given, list) or not given or any(one not in SOURCES for one in given):
        raise body.refuse("sources", f"must be a list of: {', '.join(SOURCES)}")
    return tuple(source for source in SOURCES if source in given)


def _included(body: Fields) -> list[str]:
    return [body.check_text("include", value, LONGEST_WORD) for value in body.items("include", most=100)]


def _unused(body: Fields, included: list[str]) -> list[str]:
    names = [name for name in IGNORED if body.given(name)]
    return [*names, "include"] if any(value != SEARCH_SOURCES for value in included) else names
