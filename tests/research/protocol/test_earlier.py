"""What each upstream is told of the chat that a run goes on from."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from research.protocol import wire_agent, wire_responses, wire_sonar, wire_web
from research.protocol.outcome import Earlier, Options, Order, Refused

CHAT = (("user", "My name is Ada."), ("assistant", "Hello."), ("user", "Why?"), ("assistant", "So."))
ORDER = Order("Go on", Options(), {}, "0" * 32, Earlier(chat=CHAT))
SAID = [*CHAT, ("user", "Go on")]


def agent(order: Order) -> Any:
    return wire_agent.build_request(order)[0]["input"]


def responses(order: Order) -> Any:
    return wire_responses.build_request(order, "m")[0]["input"]


def sonar(order: Order) -> Any:
    return wire_sonar.build_request(order)[0]["request"]["messages"]


@pytest.mark.parametrize("told", [agent, responses, sonar])
def test_it_says_every_turn_before_the_question(told: Any) -> None:
    assert [(item["role"], item["content"]) for item in told(ORDER)] == SAID


def test_a_web_session_reads_all_of_it_and_less_of_what_does_not_fit() -> None:
    whole = asked(ORDER)
    assert [(item["role"], item["content"]) for item in whole] == list(CHAT)

    long = asked(replace(ORDER, earlier=Earlier(chat=(*CHAT[:-1], ("assistant", "x" * 200_000)))))
    assert [item["content"] for item in long[:3]] == [text for _, text in CHAT[:3]]
    assert 0 < len(long[3]["content"]) < 200_000

    alone = asked(replace(ORDER, earlier=Earlier(chat=(("user", "x" * 200_000), ("assistant", "So.")))))
    assert alone == "Go on"


def asked(order: Order) -> Any:
    """What the session is asked: the question alone, or a document of all that was said."""
    built = wire_web.build_inquiry(order)
    assert not isinstance(built, Refused)
    try:
        return json.loads(built[0].whole)["history"]
    except ValueError:
        return built[0].whole
