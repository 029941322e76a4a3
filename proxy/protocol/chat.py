"""The Chat Completions request: what is understood, refused and ignored (proxy-contract §4.1-4.3).

A control that would change the answer and cannot be honoured is a 400 that names it; one that would
not is listed as ignored. The checks come in the contract's order, so the first error is always the
same; nothing here asks the upstream or the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from portal.wire.errors import BadRequest
from portal.wire.fields import fields_of
from portal.wire.sound import flaw_of
from proxy.protocol.chat_functions import read_bridge, read_tools
from proxy.protocol.chat_messages import Attachment, ChatMessage
from proxy.protocol.conversation import Message
from proxy.protocol.functions_prompt import Bridge
from proxy.protocol.web_request import Recency

Source = Literal["web", "scholar", "social"]

SOURCES: tuple[Source, ...] = ("web", "scholar", "social")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
LONGEST_NAME = 200
IGNORED = (
    "metadata",
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
    "web_search_options",
)
"""Known members (openai-compat §2.1) that change nothing here: told in the answer (SPEC 10.9)."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request that is well-formed; whether its model exists is the catalogue's question."""

    model: str
    messages: tuple[ChatMessage, ...]
    stream: bool = False
    thinking: bool = False
    sources: tuple[Source, ...] = ("web",)
    language: str = "en-US"
    include_usage: bool = False
    sources_footer: bool | None = None
    """Extension: list the sources behind the answer; None leaves it to the key."""
    ignored: tuple[str, ...] = field(default=())
    bridge: Bridge | None = None
    """Set when functions are offered: it holds the whole question, and `messages` only what is in words."""
    keeps_marks: bool = False
    """Citation marks `[n]` stay in the text, as Sonar's readers want them."""
    recency: Recency | None = None
    """How old what is searched may be."""

    @property
    def texts(self) -> tuple[Message, ...]:
        """The conversation as text."""
        return tuple(Message(message.role, message.text) for message in self.messages)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """In the order of the messages."""
        return tuple(one for message in self.messages for one in message.attachments)


def read_body(raw: bytes) -> object:
    """The JSON value of a request body; 400 when it is none."""
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadRequest("The body must be a JSON object.") from None
    return value


def parse_chat(body: object, default_model: str) -> ChatRequest:
    """The request, or the `BadRequest` that the contract names for its first error."""
    values = fields_of(body).values
    model = _model(values, default_model)
    stream = _flag(values, "stream")
    thinking = _flag(values, "thinking")
    thinking = _effort(values) or thinking
    sources = _sources(values)
    language = _language(values)
    offer = read_tools(values)
    for check in _CHECKS:
        check(values)
    include_usage = _stream_options(values)
    footer = _flag(values, "sources_footer") if values.get("sources_footer") is not None else None
    ignored = tuple(name for name in IGNORED if values.get(name) is not None)
    messages, bridge = read_bridge(values.get("messages"), offer)
    return ChatRequest(
        model, messages, stream, thinking, sources, language, include_usage, footer, ignored, bridge
    )


Values = Mapping[str, object]


def _model(values: Values, default: str) -> str:
    if "model" not in values:
        return default
    model = values["model"]
    if not isinstance(model, str) or not model.strip() or len(model) > LONGEST_NAME or flaw_of(model):
        raise BadRequest("model must be the name of a model.", param="model")
    return model.strip()


def _flag(values: Values, name: str) -> bool:
    value = values.get(name)
    if value is None or isinstance(value, bool):
        return value or False
    raise BadRequest(f"{name} must be true or false.", param=name)


def _effort(values: Values) -> bool:
    """Whether it asks for thinking."""
    effort = values.get("reasoning_effort")
    if effort is not None and effort not in EFFORTS:
        raise BadRequest(f"reasoning_effort must be one of: {', '.join(EFFORTS)}.", param="reasoning_effort")
    return effort not in (None, "none")


def _sources(values: Values) -> tuple[Source, ...]:
    given = values.get("sources")
    if given is None:
        return ("web",)
    if not isinstance(given, list) or not given or any(one not in SOURCES for one in given):
        raise BadRequest(f"sources must be a list of: {', '.join(SOURCES)}.", param="sources")
    return tuple(source for source in SOURCES if source in given)


def _language(values: Values) -> str:
    language = values.get("language")
    if language is None:
        return "en-US"
    if not isinstance(language, str) or not 0 < len(language.strip()) <= LONGEST_NAME or flaw_of(language):
        raise BadRequest("language must be a language tag, as in en-US.", param="language")
    return language.strip()


def _fixed(name: str, only: float) -> Callable[[Values], None]:
    def check(values: Values) -> None:
        value = values.get(name)
        if value is not None and (isinstance(value, bool) or value != only):
            raise BadRequest(f"{name} cannot be set: the only value is {only:g}.", param=name)

    return check


def _absent(name: str) -> Callable[[Values], None]:
    def check(values: Values) -> None:
        if values.get(name) is not None:
            raise BadRequest(f"{name} is not supported.", param=name)

    return check


def _one_of(name: str, *allowed: object) -> Callable[[Values], None]:
    def check(values: Values) -> None:
        value = values.get(name)
        if value is not None and not any(value == one and type(value) is type(one) for one in allowed):
            shown = " or ".join(json.dumps(one) for one in allowed)
            raise BadRequest(f"{name} can only be {shown}.", param=name)

    return check


_CHECKS: tuple[Callable[[Values], None], ...] = (
    *(_fixed(name, 1) for name in ("temperature", "top_p", "n")),
    *(_fixed(name, 0) for name in ("presence_penalty", "frequency_penalty")),
    *(
        _absent(name)
        for name in (
            "max_tokens",
            "max_completion_tokens",
            "stop",
            "seed",
            "logit_bias",
            "top_logprobs",
            "audio",
        )
    ),
    _one_of("modalities", ["text"]),
    _one_of("verbosity", "medium"),
    _one_of("logprobs", False),
    _one_of("response_format", {"type": "text"}),
)


def _stream_options(values: Values) -> bool:
    """Whether the stream is to end with its usage, which is an estimate."""
    options = values.get("stream_options")
    if options is None:
        return False
    include = options.get("include_usage") if isinstance(options, dict) else "no object"
    if include is not None and not isinstance(include, bool):
        raise BadRequest("stream_options must be an object; include_usage is a flag.", param="stream_options")
    return include or False
