"""What callers are told beside an answer, at every door of chat (SPEC 10.9, decision 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.services.upstreams import uses_sandbox
from proxy.protocol.chat_stream import found_of
from proxy.protocol.conversation import DROPPED_HEADER
from proxy.protocol.delta import Done, Source
from proxy.services.chat import ChatPlan, Question
from proxy.services.settling import Settled

SANDBOX_HEADER = "x-sonde-sandbox"


def sonde_of(
    question: Question, plan: ChatPlan | None, settled: Settled, done: Done | None = None
) -> dict[str, Any]:
    """`sonde`, the member of an answer that is ours: who answered, what was ignored and dropped.

    With `done` also every source that was found: what the text does not cite stands nowhere else.
    """
    said: dict[str, Any] = {"answered_by": settled.answered_by or None, "usage": "estimated"}
    if question.request.ignored:
        said["ignored"] = list(question.request.ignored)
    if dropped := question.conversation.dropped.header:
        said["dropped"] = dropped
    if plan and plan.session.upstream.sandbox:
        said["sandbox"] = True
    return said | found_of(done) if done else said


def footer_of(question: Question, sources: tuple[Source, ...]) -> tuple[Source, ...]:
    """The sources to list behind the text, if the request, or else its key, wants that."""
    asked = question.request.sources_footer
    wants = question.who.chat.sources_footer if asked is None else asked
    return sources if wants else ()


def headers_of(question: Question, plan: ChatPlan | None) -> Mapping[str, str]:
    """Known before the answer is: without a plan the portal waits for a place."""
    headers: dict[str, str] = {}
    if dropped := question.conversation.dropped.header:
        headers[DROPPED_HEADER] = dropped
    if plan.session.upstream.sandbox if plan else uses_sandbox():
        headers[SANDBOX_HEADER] = "true"
    return headers
