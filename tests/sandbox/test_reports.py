"""The report of a good day: what a person sees first."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.findings import findings
from sandbox.markers import Api
from sandbox.scenarios import MARKERS, UnreadableMarker, plain_question, read_script
from tests.examples import examples

APIS: tuple[Api, ...] = ("agent", "sonar")
QUESTIONS = (
    "What are the main trade-offs between SQLite and PostgreSQL for a small team's internal tools?",
    "Why did honey bee populations decline in Europe?",
    "Will heat pumps replace gas boilers in Germany by 2035?",
    "How should a hospital choose a patient record system?",
    "Give me an overview of deep sea mining",
    "¿Qué es el cambio climático?",
    "日本の半導体産業の現状は?",
    "Hi",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_says_first_and_last_that_no_research_was_made(question: str) -> None:
    text = findings(question, "agent").text
    paragraphs = text.strip().split("\n\n")
    assert paragraphs[0].startswith("# Simulated report: ")
    assert "simulated report" in paragraphs[1]
    assert "No research was made" in paragraphs[1]
    assert "No research was made" in paragraphs[-1]


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_writes_about_a_thousand_words_with_a_table_lists_and_headings(question: str) -> None:
    text = findings(question, "agent").text
    assert 900 <= len(text.split()) <= 1150
    assert len(re.findall(r"^## ", text, re.M)) >= 7
    assert re.search(r"^\|---\|---\|---\|$", text, re.M)
    assert re.search(r"^- ", text, re.M)
    assert re.search(r"^1\. ", text, re.M)


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_marks_all_eight_sources_and_no_other(question: str) -> None:
    found = findings(question, "agent")
    assert {int(mark) for mark in re.findall(r"\[(\d+)\]", found.text)} == set(range(1, 9))
    assert len({source.url for source in found.sources}) == 8


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_names_only_places_that_cannot_exist(question: str) -> None:
    for source in findings(question, "sonar").sources:
        assert re.match(r"https://example\.(org|com|net)/sandbox/[a-z0-9-]+/[a-z-]+$", source.url)
        assert source.title
        assert source.title.startswith("Placeholder ")


def test_it_speaks_of_the_question_asked() -> None:
    texts = {question: findings(question, "agent").text for question in QUESTIONS}
    assert len(set(texts.values())) == len(QUESTIONS)
    assert "honey bee populations" in texts[QUESTIONS[1]]
    assert "SQLite" in texts[QUESTIONS[0]]
    assert "It is a comparison" in texts[QUESTIONS[0]]
    assert "It asks for causes" in texts[QUESTIONS[1]]
    assert "It looks ahead" in texts[QUESTIONS[2]]
    assert "It asks what to do" in texts[QUESTIONS[3]]
    assert "It asks for an overview" in texts[QUESTIONS[4]]


def test_it_writes_the_same_for_the_same_question() -> None:
    first = findings(QUESTIONS[0], "agent")
    findings.cache_clear()
    assert findings(QUESTIONS[0], "agent") == first


def test_it_keeps_markers_out_of_its_text() -> None:
    question = "Why [sandbox:think] is\n the sky [sandbox:sonar.cost=1] blue?"
    assert plain_question(question) == "Why is the sky blue?"
    assert "sandbox:" not in findings("Why is the sky blue? [sandbox:duration=1]", "agent").text


@given(st.text(max_size=300))
@examples(150)
def test_it_has_something_to_say_about_anything(question: str) -> None:
    try:
        read_script(question, "agent")
    except UnreadableMarker:
        return
    found = findings(question, "agent")
    assert found.text.startswith("# Simulated report: ")
    assert "\x00" in question or 850 <= len(found.text.split()) <= 1500
    assert found.queries == 8


@given(st.lists(st.sampled_from(sorted(MARKERS)), max_size=6), st.sampled_from(APIS))
@examples(150)
def test_it_survives_any_mixture_of_markers(names: list[str], api: Api) -> None:
    values = {"cost": "=0.1", "duration": "=1", "retry-after": "=date", "shape": "=text", "say": "=aGk"}
    values |= {"text-form": "=plain", "framing": "=odd", "bridge": "=call", "report-in": "=both"}
    values |= {"processing": "=works", "upload": "=error"}
    markers = ""
    for name in names:
        usual = "" if MARKERS[name].default is not None else "=1"
        markers += f"[sandbox:{name}{values.get(name, usual)}]"
    assert isinstance(findings(f"Why? {markers}", api).text, str)
