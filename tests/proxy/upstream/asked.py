"""One question to the web upstream, read to its end."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from portal.services import network
from portal.wire.sse import SseDecoder
from proxy.protocol.delta import Delta, Done, Fault, Text
from proxy.protocol.web_events import WebAnswer
from proxy.protocol.web_request import Ask, AskIds
from proxy.upstream import web


@dataclass(frozen=True, slots=True)
class Told:
    text: str
    last: Done | Fault


def ids() -> AskIds:
    return AskIds(*(str(uuid4()) for _ in range(4)))


def ask(session: web.Session, question: str, preference: str = "pplx_pro") -> Told:
    return network.call(asked(session, question, preference))


async def asked(session: web.Session, question: str, preference: str = "pplx_pro") -> Told:
    opened = await web.ask(session, Ask(question, preference), ids())
    if isinstance(opened, Fault):
        return Told("", opened)
    answer, decoder, deltas = WebAnswer(preference), SseDecoder(), list[Delta]()
    try:
        while chunk := await opened.read():
            for record in decoder.feed(chunk):
                deltas += answer.read(record)
    except web.Broke as broke:
        deltas.append(broke.fault)
    finally:
        await opened.close()
    deltas += answer.close() if not deltas or not isinstance(deltas[-1], Done | Fault) else []
    last = deltas[-1]
    assert isinstance(last, Done | Fault)
    return Told("".join(delta.text for delta in deltas if isinstance(delta, Text)), last)
