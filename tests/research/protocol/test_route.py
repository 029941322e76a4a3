from __future__ import annotations

from typing import Any

import pytest

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from research.protocol.route import check_research, is_research


@pytest.mark.parametrize(
    "body",
    [
        {"preset": "high"},
        {"effort": "low"},
        {"preset": "high", "model": "zai/glm-5.1"},
        {"model": "sonar-deep-research"},
        {"model": "deep-research"},
        {"model": "default"},
    ],
)
def test_it_knows_research(body: dict[str, Any]) -> None:
    assert is_research(Fields(body))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, None),
        ({"preset": None, "effort": None}, None),
        ({"model": "gpt-5"}, "model_not_found"),
        ({"model": ["default"]}, "model_not_found"),
        ({"model": 7}, "model_not_found"),
    ],
)
def test_it_says_that_chat_is_not_served_yet(body: dict[str, Any], code: str | None) -> None:
    with pytest.raises(BadRequest, match="Chat models are not served here yet") as caught:
        check_research(Fields(body))
    assert (caught.value.param, caught.value.code) == ("model", code)
