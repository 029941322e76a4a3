"""The models of the web upstream, and who may ask for which (perplexity-web §13).

`SEED` fills the catalogue of a new installation; the database's rows, in the same form, decide from
then on. Ids are ours, preferences are the upstream's and stay inside the house (proxy-contract
§17.39).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from portal.wire.errors import BadRequest, Problem
from proxy.protocol.session import Tier

MODES = ("auto", "pro", "reasoning", "deep research")
LONGEST_ID = 64
"""Characters of an id or a preference that somebody gives; a thinking variant is named after it."""
CREATED = 1_700_000_000
"""Unix seconds: what every model shows as its birthday (proxy-contract §3)."""
FREE_MODEL = "auto"
RESEARCH_MODEL = "sonar-deep-research"
_RANK: Mapping[Tier, int] = {"free": 0, "pro": 1, "max": 2}


@dataclass(frozen=True, slots=True)
class Model:
    """`preference` selects it upstream, `thinking` its thinking variant ("" for none)."""

    id: str
    label: str
    tier: Tier
    preference: str
    thinking: str = ""
    enabled: bool = True
    mode: str = "pro"
    custom: bool = False
    """Added by an administrator: it has no label of its own and needs a paid tier."""

    def preference_for(self, *, thinking: bool) -> str:
        """Thinking that a model does not have is silently left out."""
        return self.thinking if thinking and self.thinking else self.preference

    @property
    def needs(self) -> Tier:
        """The account tier that it takes; a custom model takes a paid one, whatever its row says."""
        return "pro" if self.custom and self.tier == "free" else self.tier

    @property
    def counted(self) -> bool:
        """Whether an answer uses up quota: all but `auto` do."""
        return self.id != FREE_MODEL


SEED: tuple[Model, ...] = (
    Model("auto", "Perplexity Best", "free", "pplx_pro"),
    Model("sonar", "Sonar 2", "pro", "experimental"),
    Model("gpt", "GPT-5.6 Terra", "pro", "gpt56_terra", "gpt56_terra_thinking"),
    Model("gpt-5.6-terra", "GPT-5.6 Terra", "pro", "gpt56_terra", "gpt56_terra_thinking"),
    Model("gpt-5.6-sol", "GPT-5.6 Sol", "max", "gpt56_sol", "gpt56_sol_thinking"),
    Model("gpt-5.5", "GPT-5.5", "pro", "gpt55", "gpt55_thinking"),
    Model("gpt-mini", "GPT-5 Mini", "pro", "gpt5_mini"),
    Model("gpt-nano", "GPT-5 Nano", "pro", "gpt5_nano"),
    Model("gemini", "Gemini 3.1 Pro", "pro", "gemini31pro_high"),
    Model("gemini-flash", "Gemini 3.5 Flash", "pro", "gemini35flash"),
    Model("gemini-flash-lite", "Gemini 3.1 Flash Lite", "pro", "gemini31flashlite", enabled=False),
    Model("sonnet", "Claude Sonnet 5", "pro", "claude50sonnet", "claude50sonnetthinking"),
    Model("sonnet-5", "Claude Sonnet 5", "pro", "claude50sonnet", "claude50sonnetthinking"),
    Model("sonnet-4.6", "Claude Sonnet 4.6", "pro", "claude46sonnet", "claude46sonnetthinking"),
    Model("haiku", "Claude Haiku 4.5", "pro", "claude45haiku", enabled=False),
    Model("opus", "Claude Opus 4.8", "max", "claude48opus", "claude48opusthinking"),
    Model("opus-4.8", "Claude Opus 4.8", "max", "claude48opus", "claude48opusthinking"),
    Model("opus-4.7", "Claude Opus 4.7", "max", "claude47opus", "claude47opusthinking"),
    Model("opus-4.6", "Claude Opus 4.6", "max", "claude46opus", "claude46opusthinking"),
    Model("grok", "Grok 4.6", "pro", "grok46low"),
    Model("grok-4.6", "Grok 4.6", "pro", "grok46low"),
    Model("grok-4.5", "Grok 4.5", "pro", "grok45low", "grok45medium"),
    Model("grok-4", "Grok 4", "pro", "grok4"),
    Model("grok-reasoning", "Grok 4.20 Reasoning", "pro", "grok420reasoning"),
    Model("grok-non-reasoning", "Grok 4.20 Non Reasoning", "pro", "grok420nonreasoning"),
    Model("grok-multi", "Grok 4.20 Multi-Agent", "max", "grok420multiagent", enabled=False),
    Model("nemotron", "Nemotron 3 Ultra", "pro", "nv_nemotron_3_ultra"),
    Model("nemotron-3-super", "Nemotron 3 Super", "pro", "nv_nemotron_3_super"),
    Model("glm-5.2", "GLM-5.2", "pro", "glm_5_2"),
    Model("kimi-k2.6", "Kimi K2.6", "pro", "kimik26instant", "kimik26thinking"),
    Model("kimi-k3", "Kimi K3", "pro", "kimik3"),
)


class ModelNotAvailable(Problem):
    """403: the model exists, but not for this account."""

    status = 403
    type = "invalid_request_error"


def may_use(model: Model, tier: Tier) -> bool:
    """Whether an account of `tier` may ask this model."""
    return _RANK[tier] >= _RANK[model.needs]


def visible(models: Iterable[Model], tier: Tier) -> tuple[Model, ...]:
    """What `/v1/models` shows."""
    return tuple(model for model in models if model.enabled and may_use(model, tier))


def resolve(models: Iterable[Model], name: str, tier: Tier) -> Model:
    """The model called `name`; a 403 or 400 that says which ones there are."""
    known = tuple(models)
    model = next((one for one in known if one.id == name), None)
    if model is None and name == RESEARCH_MODEL:
        raise BadRequest(
            f"{RESEARCH_MODEL} takes minutes, so it does not answer here: start it at POST /v1/async/sonar "
            "or /v1/responses, and poll it.",
            param="model",
            code="model_not_found",
        )
    if model is None:
        offered = ", ".join(one.id for one in visible(known, tier))
        raise BadRequest(
            f"There is no model of this name. Available: {offered}.", param="model", code="model_not_found"
        )
    if not model.enabled:
        raise _not_available(f"The model {model.id} is not offered at present.")
    if not may_use(model, tier):
        raise _not_available(f"The model {model.id} needs a higher account tier than {tier}.")
    return model


def _not_available(message: str) -> ModelNotAvailable:
    return ModelNotAvailable(message, param="model", code="model_not_available")


def label_of(models: Iterable[Model], preference: str) -> str:
    """The name that readers know for a preference; the raw id for one that the table does not have."""
    for model in models:
        if preference == model.preference and not model.custom:
            return model.label
        if preference and preference == model.thinking:
            return f"{model.label} Thinking"
    return preference


def model_body(model: Model, *, for_admin: bool = False) -> dict[str, object]:
    """One entry of `GET /v1/models`."""
    body: dict[str, object] = {
        "id": model.id,
        "object": "model",
        "created": CREATED,
        "owned_by": "perplexity",
        "mode": model.mode,
    }
    return body | {"internal_pref": model.preference} if for_admin else body


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """`POST /admin/update-models`: id → (mode, preference); without `merge` it is the whole map."""

    models: Mapping[str, tuple[str, str]]
    merge: bool


def parse_update(body: object) -> MapUpdate:
    """proxy-contract §12; raises `BadRequest`."""
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    merge = body.get("merge", True)
    if not isinstance(merge, bool):
        raise BadRequest("merge must be true or false.", param="merge")
    given = body.get("models")
    if not isinstance(given, dict):
        raise BadRequest("models must be an object of id: [mode, preference].", param="models")
    if not (given or merge):
        raise BadRequest("models must not be empty: nothing would be left.", param="models")
    return MapUpdate({name.strip(): _entry(name, pair) for name, pair in given.items()}, merge)


def _entry(name: str, pair: object) -> tuple[str, str]:
    match pair:
        case [str(mode), str(preference)] if mode in MODES and _is_id(name) and _is_id(preference):
            return mode, preference.strip()
    raise BadRequest(
        f"Each model is id: [mode, preference], its mode one of: {', '.join(MODES)}; id and preference are "
        f"one line of at most {LONGEST_ID} characters.",
        param="models",
    )


def _is_id(text: str) -> bool:
    """What any database can hold, and a person can read."""
    return 0 < len(text.strip()) <= LONGEST_ID and text.strip().isprintable()


def map_body(models: Iterable[Model], default: str, tier: Tier) -> dict[str, object]:
    """`GET /admin/models`."""
    shown = {model.id: {"mode": model.mode, "pref": model.preference} for model in visible(models, tier)}
    return {"default": default, "account_type": tier, "models": shown}
