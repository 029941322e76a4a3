from __future__ import annotations

from typing import Any

import pytest

from portal.wire.fields import Fields
from research.protocol.route import engine_of


@pytest.mark.parametrize(
    "body",
    [
        {"preset": "high"},
        {"effort": "low"},
        {"preset": "no such preset"},
        {"preset": 7},
        {"preset": "high", "model": "zai/glm-5.1"},
        {"effort": "high", "stream": True},
        {"model": "sonar-deep-research"},
        {"model": " deep-research "},
        {"model": "default"},
    ],
)
def test_it_sends_research_to_research(body: dict[str, Any]) -> None:
    assert engine_of(Fields(body)) == "research"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"preset": None, "effort": None},
        {"model": "gpt-5"},
        {"model": None},
        {"model": ["default"]},
        {"model": 7},
        {"model": "Default"},
        {"input": "deep-research", "reasoning": {"effort": "high"}},
    ],
)
def test_it_sends_everything_else_to_chat(body: dict[str, Any]) -> None:
    assert engine_of(Fields(body)) == "chat"
