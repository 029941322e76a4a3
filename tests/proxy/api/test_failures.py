"""Every failing scenario of perplexity-web §10.4, by each way of asking: an error, never an answer's end.

Nothing is charged while nothing was delivered; what a stream had delivered before it broke costs its price
(SPEC 2.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from pytest_django.fixtures import Settings

from proxy.models.accounts import WebAccount
from proxy.models.responses import ChatResponse
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, events
from tests.proxy.chatting import text_of as text_of_chat
from tests.proxy.responding import ask, checked, text_of
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

FAILURES: dict[str, tuple[str, str, int]] = {
    "quota": ("upsell", "", 429),
    "sign-in wall": ("authwall", "", 502),
    "error event": ("error-stream=1", "error-stream=12", 502),
    "FAILED": ("failed", "", 502),
    "FAILED without a word": ("failed-silent", "", 502),
    "error": ("error-frame", "", 502),
    "error code": ("error-code", "", 429),
    "broken JSON": ("broken-json=1", "broken-json=7", 502),
    "JSON array": ("array-frame=1", "array-frame=7", 502),
    "cut": ("end-stream=1", "end-stream=12", 502),
    "cut connection": ("cut-stream=1", "cut-stream=12", 502),
    "cut without its end": ("empty] [sandbox:no-end", "no-end", 502),
    "contradiction": ("", "rewrite", 502),
    "retraction": ("", "retract", 502),
    "nothing": ("empty", "", 502),
    "stopped": ("", "stopped", 502),
    "silence": ("idle-stream=1] [sandbox:heartbeat=0.05", "idle-stream=12] [sandbox:heartbeat=0.05", 502),
    "endless line": ("endless-line", "", 502),
}
"""Scenario → what plays it before any text, and behind some; the status of the first."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of asking. `broken` gives the text that a stream told before its error; its last event must
    be that error, and nothing in it the end of an answer."""

    ask: Callable[[Chatter, str], httpx.Response]
    broken: Callable[[bytes], str] | None = None


def broken_chat(stream: bytes) -> str:
    chunks = events(stream)
    assert set(chunks[-1]) == {"error"}
    assert set(chunks[-1]["error"]) == {"message", "type", "param", "code"}
    assert not any(chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1])
    return text_of_chat(stream)


def broken_response(stream: bytes) -> str:
    told: list[Any] = checked(stream)
    assert told[-1]["type"] == "response.failed"
    assert told[-1]["response"]["error"]["code"] == "server_error"
    return text_of(told[-1]["response"])


WAYS: dict[str, Way] = {
    "chat": Way(lambda who, question: who.chat(question)),
    "chat stream": Way(lambda who, question: who.chat(question, stream=True), broken_chat),
    "responses": Way(ask),
    "responses stream": Way(lambda who, question: ask(who, question, stream=True), broken_response),
}


@pytest.fixture
def who(sandbox: SandboxServer, settings: Settings) -> Chatter:
    settings.CHAT_SILENCE_SECONDS = 0.4
    return chatter()


def asked(who: Chatter, way: Way, marker: str) -> httpx.Response:
    """By an account that no earlier question has troubled."""
    WebAccount.objects.all().delete()
    account()
    answer = way.ask(who, f"Why? [sandbox:pieces=12] [sandbox:{marker}]")
    assert b"[DONE]" not in answer.content
    assert b"response.completed" not in answer.content
    assert who.turn.state == "failed"
    assert who.turn.error_code
    return answer


def check_refused(answer: httpx.Response, way: Way, status: int) -> None:
    """Not a word of an answer: at most of what was done for one."""
    if way.broken and answer.status_code == 200:
        assert way.broken(answer.content) == ""
    else:
        assert error_of(answer)[0] == status


@pytest.mark.parametrize("scenario", FAILURES)
def test_it_ends_every_failing_scenario_in_an_error_and_charges_nothing_that_was_not_delivered(
    who: Chatter, scenario: str
) -> None:
    before, behind, status = FAILURES[scenario]
    for name, way in WAYS.items():
        if before:
            check_refused(asked(who, way, before), way, status)
        if behind and not way.broken:
            check_refused(asked(who, way, behind), way, 502)
        assert who.spent == "0 0", name
    for delivered, way in enumerate((way for way in WAYS.values() if way.broken and behind), 1):
        assert way.broken is not None
        assert way.broken(asked(who, way, behind).content)
        assert who.spent == f"0.{delivered} 0"
    assert not ChatResponse.objects.exclude(status="failed").exists()
