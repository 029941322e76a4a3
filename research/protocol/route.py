"""The front door of `/v1/responses`: who answers a request (SPEC 4.2, 10.10).

    `preset` or `effort` is given                → research
    `model` is a research model's name           → research
    anything else, no model at all included      → chat

The decision looks at these three members and at nothing else: not at the database, so a follow-up
by `previous_response_id` goes where its own words send it, and not at whether the value is any good,
so an unknown preset is research's error to tell. An id, once made, is looked up among both.
"""

from __future__ import annotations

from typing import Literal

from portal.wire.fields import Fields

Engine = Literal["research", "chat"]
RESEARCH_MODELS = frozenset({"sonar-deep-research", "deep-research", "default"})
"""In `model` these ask for research at the default preset; in `preset` words mean presets."""


def engine_of(body: Fields) -> Engine:
    model = body.values.get("model")
    named = isinstance(model, str) and model.strip() in RESEARCH_MODELS
    return "research" if named or body.given("preset") or body.given("effort") else "chat"
