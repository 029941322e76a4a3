"""Discovery of models: next versions, probes, rounds, the catalogue of the upstream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

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
)

BY_ID = {model.id: model for model in SEED}
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
