"""The rules of a Responses stream (openai-compat §§3.4, 6), asked of the events that we made.

Ours, the SDK's types, and OpenAI's own document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from portal.wire.conformance.checks import Profile, faults
from portal.wire.conformance.responses import RESPONSE, ResponseBody
from portal.wire.conformance.responses_stream import STREAM, ResponseStream
from portal.wire.sse import SseDecoder
from proxy.protocol.responses_stream import Event
from tests.openapi import misfits_of_event

Json = dict[str, Any]
_strict: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_response = TypeAdapter(Response)


def read(events: Sequence[Event]) -> list[Json]:
    """As a client reads them off the stream."""
    return [json.loads(record.data) for record in SseDecoder().feed(b"".join(map(Event.encode, events)))]


def check(events: Sequence[Event], *, profile: Profile = "strict") -> list[Json]:
    """The payloads of a whole stream, once every rule holds."""
    return check_stream(b"".join(event.encode() for event in events), profile=profile)


def check_stream(body: bytes, *, profile: Profile = "strict") -> list[Json]:
    """The same of the bytes of a stream. What our own API says in its way (`agent`) no type can hold."""
    stream = ResponseStream.of(body)
    assert faults(STREAM.run(stream)) == []
    assert faults(RESPONSE.run(ResponseBody(stream.last["response"], profile=profile))) == []
    for event in stream.events:
        faults_of_event = misfits_of_event(event)
        assert not faults_of_event, faults_of_event
        if profile == "strict" or event is not stream.last:
            _strict.validate_python(event)
        if profile == "strict" and "response" in event:
            _response.validate_python(event["response"])
    return list(stream.events)
