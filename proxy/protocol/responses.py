"""The Responses request: what is understood, refused and ignored (proxy-contract §§8.1-8.4).

A control that would change the answer and cannot be honoured is a 400 that names it; one that would
not is listed as ignored. Nothing here asks the upstream or the database: whether the model exists,
and what a chain or a conversation brings along, is for the services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from proxy.protocol.chat import ChatRequest, Source
from proxy.protocol.chat_messages import Attachment, ChatMessage
from proxy.protocol.response_input import InputItem
from proxy.protocol.response_object import Json


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
        raise NotImplementedError

    def chat(self, history: Iterable[ChatMessage] = ()) -> ChatRequest:
        """The same for the engine of chat."""
        raise NotImplementedError

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Of the new input, in its order; their markers stand in the texts."""
        raise NotImplementedError

    def input_items(self, response_id: str) -> tuple[Json, ...]:
        """The items as they are stored and listed: each with an id, attachments as their markers."""
        raise NotImplementedError


def parse_responses(values: Mapping[str, Any], *, default_model: str) -> ResponsesRequest:
    """The request, or the `BadRequest` that names its first wrong field in `param`."""
    raise NotImplementedError
