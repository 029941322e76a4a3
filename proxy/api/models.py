"""`GET /v1/models` and `/v1/models/{id}`: what the pool can be asked (proxy-contract §3)."""

from __future__ import annotations

from portal.api.replies import Answer, answer_json
from portal.api.routes import Call, KeyRoute
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import NotFound
from proxy.protocol.model_table import model_body, visible
from proxy.services.catalog import all_models, pool_tier


def list_models(call: Call, who: Principal) -> Answer:
    shown = [model_body(model, for_admin=who.is_staff) for model in visible(all_models(), pool_tier())]
    return answer_json({"object": "list", "data": shown})


def retrieve_model(call: Call, who: Principal) -> Answer:
    for model in visible(all_models(), pool_tier()):
        if model.id == call.parts["id"]:
            return answer_json(model_body(model, for_admin=who.is_staff))
    raise NotFound("There is no model of this name.", param="model", code="model_not_found")


routes = (
    KeyRoute("GET", "/v1/models", Scope.CHAT.value, list_models),
    KeyRoute("GET", "/v1/models/{id:path}", Scope.CHAT.value, retrieve_model),
)
