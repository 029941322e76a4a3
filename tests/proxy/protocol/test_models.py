from __future__ import annotations

from typing import Any

import pytest

from portal.wire.errors import BadRequest
from proxy.protocol.delta import ModelUsed
from proxy.protocol.model_table import (
    SEED,
    MapUpdate,
    Model,
    ModelNotAvailable,
    label_of,
    map_body,
    model_body,
    parse_update,
    resolve,
    visible,
)
from proxy.protocol.model_used import ModelWatch, same_model
from proxy.protocol.session import Tier

BY_ID = {model.id: model for model in SEED}
CUSTOM = Model("mine", "mine", "free", "their_preference", custom=True)


def test_it_offers_as_many_models_as_the_reference_counts() -> None:
    tiers: tuple[Tier, ...] = ("free", "pro", "max")

    assert [len(visible(SEED, tier)) for tier in tiers] == [1, 23, 28]
    assert sum(not model.enabled for model in SEED) == 3
    assert len(BY_ID) == len(SEED) == 31
    assert visible(SEED, "free") == (BY_ID["auto"],)


ROWS = [
    ("auto", "free", "pplx_pro", "pplx_pro"),
    ("gpt", "pro", "gpt56_terra", "gpt56_terra_thinking"),
    ("gpt-5.6-terra", "pro", "gpt56_terra", "gpt56_terra_thinking"),
    ("gpt-5.6-sol", "max", "gpt56_sol", "gpt56_sol_thinking"),
    ("sonnet", "pro", "claude50sonnet", "claude50sonnetthinking"),
    ("sonnet-5", "pro", "claude50sonnet", "claude50sonnetthinking"),
    ("opus", "max", "claude48opus", "claude48opusthinking"),
    ("grok-4.5", "pro", "grok45low", "grok45medium"),
    ("kimi-k2.6", "pro", "kimik26instant", "kimik26thinking"),
    ("kimi-k3", "pro", "kimik3", "kimik3"),
    ("sonar", "pro", "experimental", "experimental"),
]


@pytest.mark.parametrize(("name", "tier", "plain", "thinking"), ROWS)
def test_it_selects_by_preference(name: str, tier: Tier, plain: str, thinking: str) -> None:
    model = resolve(SEED, name, tier)

    assert model.preference_for(thinking=False) == plain
    assert model.preference_for(thinking=True) == thinking


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        ("gpt", "free"),
        ("opus", "pro"),
        ("opus", "free"),
        ("mine", "free"),
        ("haiku", "max"),
        ("grok-multi", "max"),
    ],
)
def test_it_refuses_what_the_account_may_not_use(name: str, tier: Tier) -> None:
    with pytest.raises(ModelNotAvailable) as caught:
        resolve((*SEED, CUSTOM), name, tier)

    error = caught.value
    assert (error.status, error.type, error.code) == (403, "invalid_request_error", "model_not_available")


def test_it_says_otherwise_why_a_disabled_model_is_refused() -> None:
    def words(name: str, tier: Tier) -> str:
        with pytest.raises(ModelNotAvailable) as caught:
            resolve(SEED, name, tier)
        return caught.value.message

    assert "tier" not in words("haiku", "free")
    assert "tier" in words("gpt", "free")


def test_it_lists_what_there_is_for_an_unknown_model() -> None:
    with pytest.raises(BadRequest) as caught:
        resolve(SEED, "gpt-9", "free")

    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
    assert caught.value.message.endswith("Available: auto.")


def test_it_offers_custom_models_to_paid_accounts() -> None:
    assert resolve((*SEED, CUSTOM), "mine", "pro") is CUSTOM
    assert CUSTOM not in visible((*SEED, CUSTOM), "free")


LABELS = [
    ("gpt56_terra", "GPT-5.6 Terra"),
    ("gpt56_terra_thinking", "GPT-5.6 Terra Thinking"),
    ("grok45medium", "Grok 4.5 Thinking"),
    ("kimik26thinking", "Kimi K2.6 Thinking"),
    ("pplx_pro", "Perplexity Best"),
    ("claude45haiku", "Claude Haiku 4.5"),
    ("turbo", "turbo"),
    ("their_preference", "their_preference"),
    ("", ""),
]


@pytest.mark.parametrize(("preference", "label"), LABELS)
def test_it_names_models_for_people(preference: str, label: str) -> None:
    assert label_of((CUSTOM, *SEED), preference) == label


def test_it_counts_every_answer_but_those_of_auto() -> None:
    assert [model.id for model in SEED if not model.counted] == ["auto"]


def test_it_shows_internal_ids_to_admins_only() -> None:
    body: dict[str, Any] = {
        "id": "auto",
        "object": "model",
        "created": 1700000000,
        "owned_by": "perplexity",
        "mode": "pro",
    }

    assert model_body(BY_ID["auto"]) == body
    assert model_body(BY_ID["auto"], for_admin=True) == body | {"internal_pref": "pplx_pro"}


def test_it_shows_the_map_to_admins() -> None:
    assert map_body(SEED, "gpt", "free") == {
        "default": "gpt",
        "account_type": "free",
        "models": {"auto": {"mode": "pro", "pref": "pplx_pro"}},
    }


def test_it_reads_an_update_of_the_map() -> None:
    assert parse_update({"models": {" a ": ["pro", " x "]}}) == MapUpdate({"a": ("pro", "x")}, merge=True)
    assert parse_update({"models": {}, "merge": True}).models == {}
    assert not parse_update({"models": {"a": ["deep research", "x"]}, "merge": False}).merge


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ({"models": {}, "merge": "no"}, "merge"),
        ({"models": None}, "models"),
        ({"models": []}, "models"),
        ({"models": {}, "merge": False}, "models"),
        *(
            ({"models": {"a": pair}}, "models")
            for pair in (
                "pro",
                ["pro"],
                ["pro", 1],
                ["pro", "x", "y"],
                ["pro", " "],
                ["max", "x"],
                {"pro": "x"},
            )
        ),
        *(({"models": {name: ["pro", "x"]}}, "models") for name in (" ", "a\0b", "a\ud800", "x" * 65)),
        *(({"models": {"a": ["pro", name]}}, "models") for name in ("a\0b", "a\ud800", "x" * 65, "a\nb")),
    ],
    ids=ascii,
)
def test_it_refuses_an_update_it_cannot_read(body: Any, param: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_update(body)
    assert caught.value.param == param


SAME = [
    ("gpt55", "gpt55", True),
    ("gpt55", "gpt5_nano", False),
    ("pplx_pro", "turbo", True),
    ("pplx_pro", "pplx_pro", True),
    ("turbo", "pplx_pro", False),
    ("gpt55", "turbo", False),
    ("claude50sonnetthinking", "claude50sonnet", True),
    ("gpt56_terra_thinking", "gpt56_terra", True),
    ("gpt56_terra_thinking", "gpt56_terra_", True),
    ("claude50sonnet", "claude50sonnetthinking", False),
    ("thinking", "", True),
]


@pytest.mark.parametrize(("requested", "reported", "same"), SAME)
def test_it_knows_an_honest_answer(requested: str, reported: str, same: bool) -> None:
    assert same_model(requested, reported) is same


def test_it_keeps_to_the_first_substitution() -> None:
    watch = ModelWatch("gpt55")

    assert watch.see("gpt55", "gpt55", piece=0, emitted=0) == ModelUsed("gpt55", substituted=False)
    assert watch.see("gpt5_nano", "gpt55", piece=50, emitted=0) == ModelUsed("gpt5_nano", substituted=True)
    assert watch.see("gpt55", "gpt55", piece=50, emitted=50) is None
    assert watch.used == ModelUsed("gpt5_nano", substituted=True)


TAILS = [
    (0, 1, "gpt55", False),
    (16, 320, "gpt55", False),
    (17, 1000, "gpt55", True),
    (16, 319, "gpt55", True),
    (0, 0, "gpt55", True),
    (16, 320, "gpt5_nano", True),
    (16, 320, "", True),
]


@pytest.mark.parametrize(("piece", "emitted", "selected", "substituted"), TAILS)
def test_it_forgives_a_minor_tail(piece: int, emitted: int, selected: str, substituted: bool) -> None:
    watch = ModelWatch("gpt55")
    watch.see("gpt5_nano", selected, piece=piece, emitted=emitted)

    assert (watch.used is not None) is substituted


def test_it_says_nothing_when_no_model_is_named() -> None:
    assert ModelWatch("gpt55").see("", "", piece=9, emitted=9) is None
