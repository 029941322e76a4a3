"""The models of the web backend by `model_preference` (perplexity-web §13), and the catalogue's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.web.accounts import TIERS, Tier

RESEARCH = "pplx_alpha"
COUNCIL = "pplx_agentic_research"
AUTOMATIC = ("pplx_pro", "turbo", "default")
REPORTED_AUTOMATIC = "turbo"


@dataclass(frozen=True, slots=True)
class Model:
    """One line of the catalogue: a preference and, where there is one, the id of its thinking variant."""

    preference: str
    label: str
    tier: Tier
    provider: str
    thinking: str | None = None
    always_thinks: bool = False


_MODELS = (
    Model("pplx_pro", "Perplexity Best", "free", "PERPLEXITY"),
    Model("turbo", "Perplexity Best", "free", "PERPLEXITY"),
    Model("default", "Perplexity Best", "free", "PERPLEXITY"),
    Model("experimental", "Sonar 2", "pro", "PERPLEXITY"),
    Model("gpt56_terra", "GPT-5.6 Terra", "pro", "OPENAI", "gpt56_terra_thinking"),
    Model("gpt56_sol", "GPT-5.6 Sol", "max", "OPENAI", "gpt56_sol_thinking"),
    Model("gpt55", "GPT-5.5", "pro", "OPENAI", "gpt55_thinking"),
    Model("gpt5_mini", "GPT-5 Mini", "pro", "OPENAI"),
    Model("gpt5_nano", "GPT-5 Nano", "pro", "OPENAI"),
    Model("gemini31pro_high", "Gemini 3.1 Pro", "pro", "GOOGLE"),
    Model("gemini35flash", "Gemini 3.5 Flash", "pro", "GOOGLE"),
    Model("gemini31flashlite", "Gemini 3.1 Flash Lite", "pro", "GOOGLE"),
    Model("claude50sonnet", "Claude Sonnet 5", "pro", "ANTHROPIC", "claude50sonnetthinking"),
    Model("claude46sonnet", "Claude Sonnet 4.6", "pro", "ANTHROPIC", "claude46sonnetthinking"),
    Model("claude45haiku", "Claude Haiku 4.5", "pro", "ANTHROPIC"),
    Model("claude48opus", "Claude Opus 4.8", "max", "ANTHROPIC", "claude48opusthinking"),
    Model("claude47opus", "Claude Opus 4.7", "max", "ANTHROPIC", "claude47opusthinking"),
    Model("claude46opus", "Claude Opus 4.6", "max", "ANTHROPIC", "claude46opusthinking"),
    Model("grok46low", "Grok 4.6", "pro", "XAI"),
    Model("grok45low", "Grok 4.5", "pro", "XAI", "grok45medium"),
    Model("grok4", "Grok 4", "pro", "XAI"),
    Model("grok420reasoning", "Grok 4.20 Reasoning", "pro", "XAI", always_thinks=True),
    Model("grok420nonreasoning", "Grok 4.20 Non Reasoning", "pro", "XAI"),
    Model("grok420multiagent", "Grok 4.20 Multi-Agent", "max", "XAI"),
    Model("nv_nemotron_3_ultra", "Nemotron 3 Ultra", "pro", "NVIDIA"),
    Model("nv_nemotron_3_super", "Nemotron 3 Super", "pro", "NVIDIA"),
    Model("glm_5_2", "GLM-5.2", "pro", "ZAI"),
    Model("kimik26instant", "Kimi K2.6", "pro", "MOONSHOT", "kimik26thinking"),
    Model("kimik3", "Kimi K3", "pro", "MOONSHOT", always_thinks=True),
)
_OTHERS = (
    Model(RESEARCH, "Deep Research", "pro", "PERPLEXITY"),
    Model("pplx_beta", "Labs", "pro", "PERPLEXITY"),
    Model("pplx_reasoning", "Reasoning", "pro", "PERPLEXITY", always_thinks=True),
    Model(COUNCIL, "Model council", "max", "PERPLEXITY"),
)
PREFERENCES: Mapping[str, Model] = {
    **{model.preference: model for model in (*_MODELS, *_OTHERS)},
    **{model.thinking: model for model in _MODELS if model.thinking},
}
_CONFIGURED = tuple(model for model in _MODELS if model.preference not in ("turbo", "default"))


def tier_of(preference: str) -> Tier:
    """The tier that a preference needs; one that was added at run time needs pro."""
    found = PREFERENCES.get(preference)
    return found.tier if found else "pro"


def allows(tier: Tier, preference: str) -> bool:
    return TIERS.index(tier) >= TIERS.index(tier_of(preference))


def thinks(preference: str) -> bool:
    found = PREFERENCES.get(preference)
    if found is None:
        return preference.endswith("thinking")
    return found.always_thinks or found.thinking == preference


def _entry(label: str, provider: str, mode: str) -> dict[str, str]:
    return {
        "label": label,
        "description": f"{label}, as the sandbox plays it",
        "mode": mode,
        "provider": provider,
    }


def _line(model: Model) -> dict[str, Any]:
    return {
        "label": model.label,
        "subscription_tier": model.tier,
        "non_reasoning_model": None if model.always_thinks else model.preference,
        "reasoning_model": model.preference if model.always_thinks else model.thinking,
        "text_only_model": False,
        "has_new_tag": False,
    }


def catalogue(added: tuple[str, ...] = (), retired: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The answer of /rest/models/config: what one account can ask for, unknown names included."""
    models = {
        name: _entry(model.label + (" Thinking" if name == model.thinking else ""), model.provider, "search")
        for name, model in PREFERENCES.items()
    }
    models[RESEARCH]["mode"] = "research"
    models["pplx_beta"]["mode"] = "studio"
    models |= {name: _entry(name, "SANDBOX", "search") for name in added}
    lines = [_line(model) for model in _CONFIGURED if model.preference not in retired]
    lines += [_line(Model(name, name, "pro", "SANDBOX")) for name in added]
    return {
        "models": {name: model for name, model in models.items() if name not in retired},
        "config": lines,
        "default_models": {"search": "pplx_pro", "research": RESEARCH, "studio": "pplx_beta"},
        "agentic_research_compare_models": ["gpt56_terra", "claude50sonnet", "gemini31pro_high"],
    }
