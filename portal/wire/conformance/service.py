"""The small endpoints: health and models (proxy-contract §3, openai-compat §4)."""

from __future__ import annotations

from typing import Any

from portal.wire.conformance.checks import Fault, Suite, arr, first, integer, obj, text, unless

HEALTH: Suite[Any] = Suite()
MODELS: Suite[Any] = Suite()


@HEALTH.check("V1", "it says that it is well")
def _v1(body: Any) -> Fault:
    return unless(obj(body)["status"] == "ok", "it does not")


@MODELS.check("M1", "models are a list")
def _m1(body: Any) -> Fault:
    return unless(obj(body)["object"] == "list" and isinstance(body["data"], list))


@MODELS.check("M2", "there is a model")
def _m2(body: Any) -> Fault:
    return unless(arr(obj(body)["data"]), "there is none")


@MODELS.check("M3", "each model has id, object, created and owned_by")
def _m3(body: Any) -> Fault:
    return first(_model_fault(obj(model)) for model in arr(obj(body)["data"]))


def _model_fault(model: dict[str, Any]) -> Fault:
    integer(model["created"])
    return unless(text(model["id"]) and text(model["owned_by"]) and model["object"] == "model")
