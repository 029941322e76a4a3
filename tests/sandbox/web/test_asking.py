"""The body of an ask, threads and follow-ups, models and quotas (perplexity-web §4, §9, §13)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandbox.web.preferences import PREFERENCES
from tests.sandbox.web.listener import ASK, PARAMS, WebVisitor, blocks, body

FIRST = "How do tides work?"


# The body.


@pytest.mark.parametrize("name", ["search_focus", "version", "model_preference"])
async def test_it_refuses_a_body_without_what_matters(web: WebVisitor, name: str) -> None:
    params = {key: value for key, value in PARAMS.items() if key != name}
    answer = await web.send("POST", ASK, json={"query_str": FIRST, "params": params})
    assert answer.status_code == 400
    assert name in answer.text


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ("{}", 400),
        (json.dumps({**body(FIRST), "extra": 1}), 400),
        (json.dumps(body("")), 400),
        (json.dumps({"query_str": 1, "params": PARAMS}), 400),
        (json.dumps({"query_str": FIRST, "params": []}), 400),
        (json.dumps(body(FIRST, version="2.17")), 400),
        (json.dumps(body(FIRST, model_preference="gpt99")), 400),
        (json.dumps(body(FIRST, model_preference=7)), 422),
        (json.dumps(body(FIRST, sources="web")), 422),
        (json.dumps(body(FIRST, use_schematized_api="yes")), 422),
        (json.dumps(body(FIRST, last_backend_uuid=7)), 422),
    ],
)
async def test_it_refuses_a_body_that_makes_no_sense(web: WebVisitor, sent: str, status: int) -> None:
    answer = await web.send("POST", ASK, content=sent)
    assert answer.status_code == status
    assert (await web.control("/web/entries"))["entries"] == []


async def test_it_knows_every_preference_of_the_table(web: WebVisitor) -> None:
    for preference in PREFERENCES:
        more = {"compare_model_preferences": ["gpt55"]} if preference == "pplx_agentic_research" else {}
        assert (await web.ask(FIRST, model_preference=preference, **more)).ended, preference


async def test_it_accepts_the_version_that_the_control_door_sets(web: WebVisitor) -> None:
    await web.control("/settings", web_version="2.19")
    assert (await web.ask(FIRST)).response.status_code == 400
    assert (await web.ask(FIRST, version="2.19")).ended


async def test_it_ignores_fields_that_it_does_not_know(web: WebVisitor) -> None:
    assert (await web.ask(FIRST, dsl_query=FIRST, mentions=[], something_new={"a": 1})).ended


# What a frame repeats.


async def test_it_repeats_the_request_in_every_frame(web: WebVisitor) -> None:
    answer = await web.ask(FIRST, model_preference="gpt55", attachments=["https://a.example/a.png"])
    for frame in answer.frames:
        assert frame["query_str"] == FIRST
        assert frame["attachments"] == ["https://a.example/a.png"]
        assert frame["frontend_uuid"] == PARAMS["frontend_uuid"]
        assert (frame["mode"], frame["search_mode"], frame["search_focus"]) == (
            "COPILOT",
            "SEARCH",
            "internet",
        )
        assert frame["user_selected_model"] == frame["display_model"] == "gpt55"
        assert frame["expect_search_results"] == "true"
        assert {"gpt4", "telemetry_data", "classifier_results", "widget_data", "cursor"} <= set(frame)
    assert len({frame["cursor"] for frame in answer.frames}) == len(answer.frames)


async def test_it_gives_the_token_late(web: WebVisitor) -> None:
    frames = (await web.ask(FIRST)).frames
    assert ["read_write_token" in frame for frame in frames[:3]] == [False, False, True]
    assert len({frame["read_write_token"] for frame in frames[2:]}) == 1


async def test_it_says_final_before_it_is(web: WebVisitor) -> None:
    frames = (await web.ask(FIRST)).frames
    early = [frame for frame in frames if frame["final"] and frame["status"] == "PENDING"]
    assert early == frames[-2:-1]
    assert early[0]["text_completed"]
    assert not early[0]["final_sse_message"]
    assert [frame["final_sse_message"] for frame in frames].count(True) == 1
    assert (frames[-1]["status"], frames[-1]["message_mode"]) == ("COMPLETED", "FULL")
    assert frames[-1]["related_queries"]
    assert not frames[-1]["reconnectable"]


# Threads.


async def test_it_answers_a_follow_up_from_memory(web: WebVisitor) -> None:
    first = await web.ask(FIRST)
    second = await web.ask("And on the Moon?", last_backend_uuid=first.entry)
    third = await web.ask("And on Mars? [sandbox:recall]", last_backend_uuid=second.entry)
    assert "(remembered): “How do tides work?”" in second.text
    assert third.text == "Before this, you asked:\n\n1. How do tides work?\n2. And on the Moon?"


async def test_it_keeps_context_token_and_slug_in_a_thread(web: WebVisitor) -> None:
    first = await web.ask(FIRST)
    token = first.last["read_write_token"]
    second = await web.ask("And then?", last_backend_uuid=first.entry, read_write_token=token)
    other = await web.ask("And then?")
    constant = ("context_uuid", "read_write_token", "thread_url_slug")
    assert [second.last[name] for name in constant] == [first.last[name] for name in constant]
    assert second.entry != first.entry == second.last["thread_url_slug"]
    assert not {other.last[name] for name in constant} & {first.last[name] for name in constant}


async def test_it_says_what_was_sent_along_instead(web: WebVisitor) -> None:
    history = [{"role": "user", "content": FIRST}, {"role": "assistant", "content": "By the Moon."}]
    query = json.dumps({"query": "And on the Moon?", "instructions": ["Be brief"], "history": history})
    answer = await web.ask(query)
    assert "(sent along): “How do tides work?”" in answer.text
    assert "You asked: *And on the Moon?*" in answer.text


async def test_it_reads_markers_in_the_question_alone(web: WebVisitor) -> None:
    history = [{"role": "user", "content": "Why? [sandbox:failed]"}]
    query = json.dumps({"query": FIRST, "instructions": ["[sandbox:upsell]"], "history": history})
    assert (await web.ask(query)).last["status"] == "COMPLETED"
    assert (await web.ask(json.dumps({"query": "[sandbox:failed]"}))).last["status"] == "FAILED"


async def follow(web: WebVisitor, question: str, case: str) -> Any:
    """A follow-up to a thread that does not exist for the asker."""
    stranger = await web.as_("sandbox-max-stranger").ask(FIRST)
    own = await web.ask(FIRST)
    gone = await web.ask(FIRST)
    token = {"entry_uuid": gone.entry, "read_write_token": gone.last["read_write_token"]}
    await web.send("DELETE", "/rest/thread/delete_thread_by_entry_uuid", json=token)
    params = {
        "unknown": {"last_backend_uuid": "00000000-0000-4000-8000-000000000000"},
        "foreign": {"last_backend_uuid": stranger.entry},
        "deleted": {"last_backend_uuid": gone.entry},
        "wrong-token": {"last_backend_uuid": own.entry, "read_write_token": "guessed"},
        "forgotten": {"last_backend_uuid": own.entry},
    }[case]
    return await web.ask(question, **params)


CASES = ["unknown", "foreign", "deleted", "wrong-token"]


@pytest.mark.parametrize("case", CASES)
async def test_it_starts_a_new_thread_for_a_follow_up_to_none(web: WebVisitor, case: str) -> None:
    answer = await follow(web, "And? [sandbox:recall]", case)
    assert answer.text == "Nothing was asked before in this thread."
    assert answer.last["thread_url_slug"] == answer.entry


@pytest.mark.parametrize("case", [*CASES, "forgotten"])
@pytest.mark.parametrize(("value", "status"), [("", 400), ("=404", 404), ("=403", 403), ("=422", 422)])
async def test_it_refuses_a_follow_up_to_none_as_the_marker_says(
    web: WebVisitor, case: str, value: str, status: int
) -> None:
    assert (await follow(web, f"And? [sandbox:forget{value}]", case)).response.status_code == status


async def test_it_can_refuse_a_follow_up_inside_the_stream_or_forget_quietly(web: WebVisitor) -> None:
    assert (await follow(web, "And? [sandbox:forget=failed]", "forgotten")).last["status"] == "FAILED"
    quiet = await follow(web, "And? [sandbox:forget=new] [sandbox:recall]", "forgotten")
    assert quiet.text == "Nothing was asked before in this thread."


async def test_it_does_not_mind_the_marker_without_a_follow_up(web: WebVisitor) -> None:
    assert (await web.ask("And? [sandbox:forget]")).ended


async def test_it_can_be_told_how_an_account_forgets(web: WebVisitor) -> None:
    await web.control("/web/account", account="sandbox-max-tester", forgotten="403")
    assert (await web.ask("And?", last_backend_uuid="x")).response.status_code == 403
    assert (await web.as_("sandbox-max-b").ask("And?", last_backend_uuid="x")).ended


# Models and quotas.


@pytest.mark.parametrize(
    ("token", "preference", "answers"),
    [
        ("sandbox-max-a", "claude48opus", "claude48opus"),
        ("sandbox-pro-a", "claude48opusthinking", "turbo"),
        ("sandbox-pro-a", "gpt56_terra_thinking", "gpt56_terra_thinking"),
        ("sandbox-free-a", "gpt56_terra", "turbo"),
        ("sandbox-free-a", "pplx_pro", "turbo"),
        ("sandbox-max-a", "pplx_pro", "turbo"),
    ],
)
async def test_it_lets_the_model_answer_that_the_tier_allows(
    web: WebVisitor, token: str, preference: str, answers: str
) -> None:
    frame = (await web.as_(token).ask(FIRST, model_preference=preference)).last
    assert (frame["display_model"], frame["user_selected_model"]) == (answers, preference)


async def test_it_counts_down_by_copilot_and_by_research(web: WebVisitor) -> None:
    visitor = web.as_("sandbox-pro-a")
    for preference in ("pplx_pro", "gpt55", "gpt55_thinking", "pplx_alpha", "turbo"):
        await visitor.ask(FIRST, model_preference=preference)
    left = await visitor.quota()
    assert (left["remaining_pro"], left["remaining_research"]) == (598, 19)
    assert (await web.as_("sandbox-pro-b").quota())["remaining_pro"] == 600


@pytest.mark.parametrize(("token", "fine"), [("sandbox-limited-pro", 0), ("sandbox-left2-pro", 2)])
async def test_it_refuses_inside_the_stream_once_the_quota_is_gone(
    web: WebVisitor, token: str, fine: int
) -> None:
    visitor = web.as_(token)
    answers = [await visitor.ask(FIRST, model_preference="gpt55") for _ in range(fine + 2)]
    refused = ["upsell_information" in answer.frames[0] for answer in answers]
    assert refused == [False] * fine + [True] * 2
    assert (await visitor.quota())["remaining_pro"] == 0
    assert "upsell_information" not in (await visitor.ask(FIRST)).frames[0]


async def test_it_takes_nothing_for_what_it_refused(web: WebVisitor) -> None:
    for marker in ("rate-limit", "server-error"):
        await web.as_("sandbox-pro-a").ask(f"Why? [sandbox:{marker}]", model_preference="gpt55")
    assert (await web.as_("sandbox-pro-a").quota())["remaining_pro"] == 600


async def test_it_can_retire_add_and_replace_models_for_one_account(web: WebVisitor) -> None:
    orders = {"retired": ["gpt56_terra"], "added": ["gpt57_terra"], "substitutes": {"grok4": "gpt5_nano"}}
    await web.control("/web/account", account="sandbox-max-tester", **orders)
    assert (await web.ask(FIRST, model_preference="gpt56_terra")).response.status_code == 400
    assert (await web.ask(FIRST, model_preference="gpt57_terra")).last["display_model"] == "gpt57_terra"
    assert (await web.ask(FIRST, model_preference="grok4")).last["display_model"] == "gpt5_nano"
    assert (await web.as_("sandbox-max-b").ask(FIRST, model_preference="gpt56_terra")).ended


# The answer of a good day.


async def test_it_says_that_it_is_simulated_and_has_a_few_sources(web: WebVisitor) -> None:
    answer = await web.ask("Should a small team use SQLite or PostgreSQL?")
    assert answer.text.startswith("**This is a simulated answer.**")
    assert "PostgreSQL" in answer.text
    results = blocks(answer.last, "web_results")
    assert len(results[0]["web_result_block"]["web_results"]) == 4
    assert all(f"[{number}]" in answer.text for number in (1, 2, 3, 4))


async def test_it_answers_the_same_question_in_the_same_words(web: WebVisitor) -> None:
    assert (await web.ask(FIRST)).text == (await web.as_("sandbox-pro-b").ask(FIRST)).text


async def test_it_mentions_files_that_came_along(web: WebVisitor) -> None:
    assert "Files that came with the question: 2." in (await web.ask(FIRST, attachments=["a", "b"])).text
