"""The front door of `/v1/responses`: which requests are research (SPEC 4.2, 10.10)."""

from __future__ import annotations

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields

RESEARCH_MODELS = frozenset({"sonar-deep-research", "deep-research", "default"})
"""In `model` these ask for research at the default preset; in `preset` words mean presets."""


def is_research(body: Fields) -> bool:
    model = body.values.get("model")
    return (
        body.given("preset")
        or body.given("effort")
        or (isinstance(model, str) and model.strip() in RESEARCH_MODELS)
    )


def check_research(body: Fields) -> None:
    """Raises BadRequest for what a chat model would have to answer."""
    if not is_research(body):
        raise BadRequest(
            "Chat models are not served here yet: this endpoint runs research. Send 'preset' or 'effort', or "
            f"one of these models: {', '.join(sorted(RESEARCH_MODELS))}.",
            param="model",
            code="model_not_found" if body.given("model") else None,
        )
