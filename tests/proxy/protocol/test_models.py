from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from portal.wire.errors import BadRequest
from proxy.protocol.delta import Done, Fault, FaultKind, ModelUsed
from proxy.protocol.discovery import (
    Report,
    Round,
    UpstreamCatalogue,
    candidates,
    is_pinned,
    probe_result,
    read_catalogue,
    upgraded,
)
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
        ({"models": {" ": ["pro", "x"]}}, "models"),
    ],
    ids=str,
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


NEXT: list[tuple[str, list[str]]] = [
    ("gpt56_terra", [f"gpt{version}_terra" for version in range(57, 67)]),
    ("gpt55", [f"gpt{version}" for version in range(56, 66)]),
    ("claude50sonnet", [f"claude{version}sonnet" for version in range(51, 61)]),
    ("claude48opus", [f"claude{version}opus" for version in range(49, 59)]),
    ("gemini31pro_high", [f"gemini{version}pro_high" for version in range(32, 42)]),
    ("grok46low", [f"grok{version}low" for version in range(47, 57)]),
    ("grok420reasoning", [f"grok{version}reasoning" for version in range(421, 431)]),
    ("grok495reasoning", [f"grok{version}reasoning" for version in range(496, 500)]),
    ("claude95opus", [f"claude{version}opus" for version in range(96, 100)]),
    ("nv_nemotron_3_ultra", ["nv_nemotron_4_ultra"]),
    *((name, []) for name in ("pplx_pro", "experimental", "gpt5_mini", "gpt5_nano", "gemini35flash")),
    *((name, []) for name in ("grok4", "glm_5_2", "kimik26instant", "kimik3")),
]


@pytest.mark.parametrize(("preference", "following"), NEXT)
def test_it_knows_the_next_versions(preference: str, following: list[str]) -> None:
    assert list(candidates(preference)) == following


def test_it_never_upgrades_an_id_that_names_its_version() -> None:
    pinned = {model.id for model in SEED if is_pinned(model.id)}

    assert {"gpt-5.5", "sonnet-4.6", "sonnet-5", "grok-4", "grok-4.6", "glm-5.2", "opus-4.8"} <= pinned
    assert not {"gpt", "sonnet", "opus", "grok", "gemini", "nemotron", "kimi-k3"} & pinned


@pytest.mark.parametrize(
    ("name", "preference", "thinking"),
    [
        ("gpt", "gpt57_terra", "gpt57_terra_thinking"),
        ("sonnet", "claude52sonnet", "claude52sonnetthinking"),
        ("grok-4.5", "grok46low", "grok46medium"),
        ("gemini", "gemini32pro_high", ""),
    ],
)
def test_it_carries_thinking_over_to_a_new_version(name: str, preference: str, thinking: str) -> None:
    model = upgraded(BY_ID[name], preference)

    assert (model.preference, model.thinking, model.id) == (preference, thinking, name)


PROBES = [
    (Done("x", model=ModelUsed("gpt55", substituted=False)), "alive"),
    (Done("x", model=ModelUsed("turbo", substituted=True)), "substituted"),
    (Done("x"), "substituted"),
    (Fault(FaultKind.REJECTED), "dead"),
    (Fault(FaultKind.EMPTY), "dead"),
    *(
        (Fault(kind), "failed")
        for kind in (FaultKind.BLOCKED, FaultKind.QUOTA, FaultKind.CUT, FaultKind.REFUSED)
    ),
]


@pytest.mark.parametrize(("outcome", "result"), PROBES)
def test_it_reads_a_probe(outcome: Done | Fault, result: str) -> None:
    assert probe_result(outcome) == result


def play(round: Round, answers: dict[str, Any]) -> tuple[list[str], Report]:
    asked: list[str] = []
    while (preference := round.next_probe()) is not None:
        asked.append(preference)
        round.tell(answers.get(preference, "dead"))
    return asked, round.report


GPT, SONNET, PINNED, GEMINI, FLASH = (
    BY_ID[name] for name in ("gpt", "sonnet", "gpt-5.5", "gemini", "gemini-flash")
)


def test_it_tries_the_next_versions_of_a_dead_model() -> None:
    asked, report = play(Round([GPT], [], "pro"), {"gpt59_terra": "alive"})

    assert asked == ["gpt56_terra", "gpt57_terra", "gpt58_terra", "gpt59_terra"]
    assert report.upgraded == {"gpt": ("gpt56_terra", "gpt59_terra")}
    assert report.probed == 4


def test_it_gives_a_model_up_after_its_last_candidate() -> None:
    asked, report = play(Round([GPT], [], "pro"), {})

    assert len(asked) == 11
    assert [(trouble.model, trouble.preference) for trouble in report.dead] == [("gpt", "gpt56_terra")]
    assert not report.upgraded


def test_it_leaves_pinned_models_alone() -> None:
    asked, report = play(Round([PINNED], [], "pro"), {})

    assert asked == ["gpt55"]
    assert [trouble.model for trouble in report.dead] == ["gpt-5.5"]


def test_it_leaves_a_substituted_model_where_it_is() -> None:
    _, report = play(Round([GPT], [], "pro"), {"gpt56_terra": "substituted"})

    assert [trouble.model for trouble in report.unavailable] == ["gpt"]
    assert not (report.upgraded)
    assert not (report.dead)


def test_it_goes_on_after_a_probe_that_failed() -> None:
    _, report = play(Round([GPT, SONNET], [], "pro"), {"gpt56_terra": "failed", "claude50sonnet": "alive"})

    assert [trouble.model for trouble in report.unavailable] == ["gpt"]
    assert report.alive == ["sonnet"]


def test_it_wants_a_successor_that_answers_itself() -> None:
    _, report = play(Round([GPT], [], "pro"), {"gpt57_terra": "substituted", "gpt58_terra": "alive"})

    assert report.upgraded == {"gpt": ("gpt56_terra", "gpt58_terra")}


def test_it_stops_looking_for_a_successor_when_a_candidate_only_fails() -> None:
    _, report = play(Round([GPT], [], "pro"), {"gpt57_terra": "failed"})

    assert [(one.model, one.preference) for one in report.unavailable] == [("gpt", "gpt57_terra")]


def test_it_adds_what_the_map_lacks_first() -> None:
    asked, report = play(
        Round([GPT], [SONNET, GEMINI], "pro"), {"claude50sonnet": "alive", "gpt56_terra": "alive"}
    )

    assert asked == ["claude50sonnet", "gemini31pro_high", "gpt56_terra"]
    assert [model.id for model in report.added] == ["sonnet"]
    assert [trouble.model for trouble in report.dead] == ["gemini"]


def test_it_probes_only_what_the_tier_allows_and_is_enabled() -> None:
    models = [BY_ID["opus"], replace(GPT, enabled=False)]

    assert play(Round(models, [BY_ID["haiku"], BY_ID["gpt-5.6-sol"]], "pro"), {})[0] == []


def test_it_probes_unversioned_models_by_hand_only() -> None:
    assert play(Round([FLASH], [], "pro"), {})[0] == []
    assert play(Round([FLASH], [], "pro", manual=True), {"gemini35flash": "alive"})[1].alive == [
        "gemini-flash"
    ]


def test_it_asks_nothing_when_the_catalogue_tells() -> None:
    catalogue = UpstreamCatalogue({"gpt58_terra": "GPT-5.8 Terra", "claude50sonnet": "Claude"})
    asked, report = play(Round([GPT, PINNED], [SONNET], "pro", catalogue=catalogue), {})

    assert asked == []
    assert report.upgraded == {"gpt": ("gpt56_terra", "gpt58_terra")}
    assert [model.id for model in report.added] == ["sonnet"]
    assert [trouble.model for trouble in report.dead] == ["gpt-5.5"]
    assert report.probed == 0


def test_it_reads_the_catalogue_of_the_upstream() -> None:
    body = (
        '{"models": {"gpt56_terra": {"label": "GPT", "mode": "search"}, "odd": 5},'
        ' "config": [{"label": "Kimi", "non_reasoning_model": "kimik26instant", "reasoning_model": null}, 7]}'
    )

    catalogue = read_catalogue(body)

    assert catalogue == UpstreamCatalogue({"gpt56_terra": "GPT", "odd": "", "kimik26instant": "Kimi"})


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"<html>", b'{"models": []}', b'{"models": {}, "config": 5}']
)
def test_it_takes_nothing_else_for_a_catalogue(body: bytes) -> None:
    assert read_catalogue(body) is None


def test_it_reports_a_round_as_the_contract_says() -> None:
    _, report = play(
        Round([GPT, PINNED], [SONNET], "pro"), {"gpt57_terra": "alive", "claude50sonnet": "alive"}
    )

    assert report.body() == {
        "status": "ok",
        "alive": 0,
        "upgraded": 1,
        "added": 1,
        "dead": 1,
        "unavailable": 0,
        "probed": 4,
        "details": {
            "alive": [],
            "upgraded": {"gpt": {"old": "gpt56_terra", "new": "gpt57_terra"}},
            "added": {"sonnet": {"pref": "claude50sonnet", "label": "Claude Sonnet 5"}},
            "unavailable": [],
            "dead": [{"model": "gpt-5.5", "pref": "gpt55", "reason": "dead"}],
            "probed": 4,
        },
    }
