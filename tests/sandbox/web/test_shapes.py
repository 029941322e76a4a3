"""The four shapes of an answer, chosen by request and model, and that all of them tell the same (§7, §8)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import jsonpatch
import pytest

from tests.sandbox.web.listener import (
    SEED_LIST,
    Answer,
    Frame,
    WebVisitor,
    blocks,
    final_text,
    placed,
    step_answer,
)

QUESTION = "How do tides work?"
DIFF = {"supported_block_use_cases": [*SEED_LIST, "diff_blocks"]}
WORKFLOW = {"supported_block_use_cases": [*SEED_LIST, "workflow_steps"]}
TEXT = {"send_back_text_in_streaming_api": True}
FAST, SEARCH, THINKING = "pplx_pro", "gpt55", "claude50sonnetthinking"
RESEARCH = {"model_preference": "pplx_alpha"}


def patched(frames: list[Frame]) -> dict[tuple[str, str], Any]:
    """The documents that all patches of an answer build, by usage and field."""
    found: dict[tuple[str, str], Any] = {}
    for frame in frames:
        for block in frame["blocks"]:
            if "diff_block" in block:
                key = (block["intended_usage"], block["diff_block"]["field"])
                found[key] = jsonpatch.apply_patch(found.get(key), block["diff_block"]["patches"])
    return found


def results(frame: Frame) -> list[dict[str, Any]]:
    return list(blocks(frame, "web_results")[0]["web_result_block"]["web_results"])


def workflow_text(frame: Frame) -> str:
    document = blocks(frame, "workflow_root")[0]["workflow_block"]
    items = [item for step in document["steps"] for item in step["items"]]
    return "".join(item["payload"]["text_payload"]["text"] for item in items if "TEXT" in item["type"])


@pytest.mark.parametrize("params", [{}, DIFF, WORKFLOW, TEXT, {"use_schematized_api": False}], ids=str)
@pytest.mark.parametrize("preference", [FAST, SEARCH, THINKING])
async def test_it_tells_the_same_in_every_shape(
    web: WebVisitor, params: dict[str, Any], preference: str
) -> None:
    plain = await web.ask(QUESTION, model_preference=preference)
    other = await web.ask(QUESTION, model_preference=preference, **params)
    assert other.text == plain.text
    assert other.ended


async def test_it_places_pieces_by_offset(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference=SEARCH)).frames
    tracks = [blocks(frame, "ask_text")[0]["markdown_block"] for frame in frames if blocks(frame, "ask_text")]
    assert [track["chunk_starting_offset"] for track in tracks[:-1]] == list(range(len(tracks) - 1))
    assert {len(track["chunks"]) for track in tracks[:-1]} == {1}
    assert {track["progress"] for track in tracks[:-1]} == {"IN_PROGRESS"}
    assert tracks[-1]["progress"] == "DONE"
    assert tracks[-1]["chunk_starting_offset"] == 0
    assert "".join(tracks[-1]["chunks"]) == tracks[-1]["answer"] == placed(frames[:-1])


@pytest.mark.parametrize("preference", [FAST, SEARCH, THINKING, "pplx_alpha"])
async def test_it_patches_documents_until_the_last_frame(web: WebVisitor, preference: str) -> None:
    frames = (await web.ask(QUESTION, model_preference=preference, **DIFF)).frames
    documents = patched(frames)
    text = documents["ask_text", "markdown_block"]
    assert "".join(text["chunks"]) == final_text(frames[-1])
    assert documents["web_results", "web_result_block"]["web_results"] == results(frames[-1])
    assert not any("diff_block" in block for block in frames[-1]["blocks"])
    media = {name for name in SEED_LIST if name != "answer_modes"}
    early = [
        block for frame in frames[:-1] for block in frame["blocks"] if block["intended_usage"] not in media
    ]
    assert all("diff_block" in block or block["intended_usage"] == "answer_modes" for block in early)


async def test_it_begins_each_document_with_a_patch_that_replaces_it(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference=THINKING, **DIFF)).frames
    seen: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for frame in frames:
        for block in frame["blocks"]:
            if "diff_block" in block:
                key = (block["intended_usage"], block["diff_block"]["field"])
                seen.setdefault(key, []).extend(block["diff_block"]["patches"])
    assert len(seen) >= 4
    for patches in seen.values():
        assert (patches[0]["op"], patches[0]["path"]) == ("replace", "")
        assert all(patch["path"] for patch in patches[1:])
    assert {"op": "add", "path": "/chunks/1"}.items() <= seen["ask_text", "markdown_block"][1].items()
    assert "/goals/1" in [patch["path"] for patch in seen["plan", "plan_block"]]


@pytest.mark.parametrize(("preference", "fast"), [(FAST, True), (SEARCH, True), (THINKING, False)])
async def test_it_writes_fast_answers_into_the_workflow_alone(
    web: WebVisitor, preference: str, fast: bool
) -> None:
    answer = await web.ask(QUESTION, model_preference=preference, **{**WORKFLOW, **TEXT})
    usages = {block["intended_usage"] for frame in answer.frames for block in frame["blocks"]}
    assert "workflow_root" in usages
    assert ("ask_text" in usages) is not fast
    assert ("text" in answer.last) is not fast
    assert not usages & {"plan", "pro_search_steps"}
    assert (workflow_text(answer.last) == answer.text) is fast
    kinds = {
        item["type"]
        for step in blocks(answer.last, "workflow_root")[0]["workflow_block"]["steps"]
        for item in step["items"]
    }
    assert {"WORKFLOW_ITEM_QUERIES", "WORKFLOW_ITEM_SOURCES"} <= kinds


async def test_it_patches_the_workflow_too(web: WebVisitor) -> None:
    both = {"supported_block_use_cases": ["diff_blocks", "workflow_steps"]}
    frames = (await web.ask(QUESTION, model_preference=SEARCH, **both)).frames
    document = patched(frames)["workflow_root", "workflow_block"]
    assert document["steps"][-1]["items"][0]["payload"]["text_payload"]["text"] == workflow_text(frames[-1])
    paths = [
        patch["path"] for frame in frames for block in blocks(frame, "workflow_root") if "diff_block" in block
        for patch in block["diff_block"]["patches"]
    ]  # fmt: skip
    assert "/steps/0/status" in paths
    assert any(path.endswith("/text_payload/chunks/1") for path in paths)


async def test_it_repeats_all_steps_in_the_text_of_every_frame(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference=THINKING, **TEXT)).frames
    counts = [len(json.loads(frame["text"])) for frame in frames]
    assert counts == sorted(counts)
    kinds = [step["step_type"] for step in json.loads(frames[-1]["text"])]
    assert kinds[0] == "INITIAL_QUERY"
    assert kinds[-1] == "FINAL"
    assert {"SEARCH_WEB", "SEARCH_RESULTS", "THOUGHT"} <= set(kinds)
    texts = [step_answer(frame["text"]) for frame in frames]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert placed(frames[:-1]) == texts[-1]


async def test_it_sends_no_blocks_when_none_are_wanted(web: WebVisitor) -> None:
    answer = await web.ask(QUESTION, use_schematized_api=False)
    assert not any(frame["blocks"] for frame in answer.frames)
    assert step_answer(answer.last["text"])


async def test_it_mirrors_the_automatic_model(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference=FAST)).frames
    assert placed(frames) == placed(frames, "ask_text_0_markdown") != ""


async def test_it_adds_text_to_the_last_frame_of_some_models(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference="experimental")).frames
    assert ["text" in frame for frame in frames] == [False] * (len(frames) - 1) + [True]


# Reasoning, sources, noise.


async def test_it_thinks_in_goals_and_steps(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference=THINKING)).frames
    goals = blocks(frames[-1], "plan")[0]["plan_block"]["goals"]
    assert [goal["final"] for goal in goals] == [True, True]
    steps = blocks(frames[-1], "pro_search_steps")[0]["plan_block"]["steps"]
    by_kind = {step["step_type"]: step for step in steps}
    assert by_kind["INITIAL_QUERY"]["initial_query_content"]["query"] == QUESTION
    assert by_kind["SEARCH_WEB"]["search_web_content"]["queries"][0]["engine"] == "web"
    assert by_kind["READ_RESULTS"]["read_results_content"]["urls"]
    first_goal = next(number for number, frame in enumerate(frames) if blocks(frame, "plan"))
    first_text = next(number for number, frame in enumerate(frames) if blocks(frame, "ask_text"))
    assert first_goal < first_text


async def test_it_has_another_place_for_the_goals_of_some_models(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference="kimik3")).frames
    assert blocks(frames[-1], "reasoning_plan_block")[0]["reasoning_plan_block"]["goals"][0]["description"]
    assert not any(blocks(frame, "plan") for frame in frames)


async def test_it_lists_sources_in_another_order_at_first(web: WebVisitor) -> None:
    frames = (await web.ask(QUESTION, model_preference=SEARCH)).frames
    early = results(next(frame for frame in frames if blocks(frame, "web_results")))
    assert early == list(reversed(results(frames[-1])))
    assert early != results(frames[-1])
    assert set(early[0]) >= {"name", "url", "snippet", "timestamp", "meta_data", "is_attachment"}
    assert blocks(frames[-1], "sources_answer_mode")


async def test_it_sends_the_noise_that_the_list_asks_for(web: WebVisitor) -> None:
    loud = {b["intended_usage"] for f in (await web.ask(QUESTION)).frames for b in f["blocks"]}
    quiet = await web.ask(QUESTION, supported_block_use_cases=[])
    assert set(SEED_LIST) <= loud
    assert not set(SEED_LIST) & {b["intended_usage"] for f in quiet.frames for b in f["blocks"]}


# Deep research.


def plan_of(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = blocks(frame, "plan")[0]["plan_block"]
    return found


def report_of(answer: Answer) -> str:
    for step in json.loads(answer.last["text"]):
        if step["step_type"] == "RESEARCH_ANSWER":
            return str(step["assets"][0]["research_report"]["source_content"])
    return ""


async def test_it_shows_how_far_deep_research_has_come(web: WebVisitor) -> None:
    frames = (await web.ask(f"{QUESTION} [sandbox:duration=0]", **RESEARCH)).frames
    percents = [plan_of(frame)["pct_complete"] for frame in frames if blocks(frame, "plan")]
    assert percents[0] == 0
    assert percents[-1] == 100
    assert percents == sorted(percents)
    assert len(set(percents)) > 8
    assert plan_of(frames[-1])["eta_seconds_remaining"] == 0
    assert {frame["search_mode"] for frame in frames} == {"RESEARCH"}
    assert len(plan_of(frames[-1])["goals"]) == 3


@pytest.mark.parametrize(
    ("params", "in_text", "in_assets"),
    [
        ({}, False, False),
        (TEXT, True, False),
        ({"supported_block_use_cases": ["unified_assets"]}, False, True),
        ({"supported_block_use_cases": ["unified_assets"], **TEXT}, True, True),
    ],
    ids=str,
)
async def test_it_gives_a_cover_note_and_the_report_beside_it(
    web: WebVisitor, params: dict[str, Any], in_text: bool, in_assets: bool
) -> None:
    answer = await web.ask(QUESTION, **RESEARCH, **params)
    assert answer.text.startswith("**A simulated report is ready.**")
    assert len(answer.text) < 2000
    assert len(results(answer.last)) == 8
    assets = blocks(answer.last, "unified_assets")
    assert bool(assets) is in_assets
    if in_text:
        assert len(report_of(answer)) > 5000
        assert report_of(answer).startswith("# Simulated report: How do tides work")
    if in_assets:
        report = assets[0]["unified_assets_block"]["assets"][0]["research_report"]["source_content"]
        assert report.startswith("# Simulated report: How do tides work")
    if not (in_text or in_assets):
        assert "# Simulated report" not in answer.response.text


async def test_it_bends_the_report_and_not_the_cover_note(web: WebVisitor) -> None:
    answer = await web.ask(f"{QUESTION} [sandbox:think]", **RESEARCH, **TEXT)
    assert report_of(answer).startswith("<think>")
    assert answer.text.startswith("**A simulated report is ready.**")
