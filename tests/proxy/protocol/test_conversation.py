from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from proxy.protocol.clients import (
    DEFAULT_WHITELIST,
    allowed_lines,
    compile_whitelist,
    detect,
    is_prompt_block,
)
from proxy.protocol.conversation import (
    LONGEST_QUERY,
    SEARCH_LINE,
    Conversation,
    Dropped,
    Message,
    PromptPolicy,
    Scope,
    continuity_key,
    history_digest,
    key_after,
    key_before,
    prepare,
)

WHITELIST = compile_whitelist(DEFAULT_WHITELIST)
FILTER = PromptPolicy(whitelist=WHITELIST, custom_text="Be brief.")


def system(text: str) -> Message:
    return Message("system", text)


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


def test_it_makes_the_last_user_message_the_query() -> None:
    conversation = prepare([user("Hi"), assistant("Hello"), user("Tides?")], FILTER)

    assert conversation == Conversation(
        "generic", "Tides?", (user("Hi"), assistant("Hello")), may_continue=True
    )


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [system("x")],
        [user("  ")],
        [user("x"), assistant("y")],
        [assistant("y")],
    ],
    ids=str,
)
def test_it_wants_a_final_user_message(messages: list[Message]) -> None:
    with pytest.raises(BadRequest) as caught:
        prepare(messages, FILTER)
    assert caught.value.param == "messages"


def test_it_cleans_the_history() -> None:
    conversation = prepare(
        [
            user("One"),
            assistant("First try"),
            assistant("Second try\n\n[Remaining Pro Search: 5]"),
            assistant("\n[Substituted by Perplexity with GPT-5 Nano]"),
            user(" "),
            user("Two [Remaining Pro Search: 5]"),
        ],
        FILTER,
    )

    assert conversation.history == (user("One"), assistant("Second try"))
    assert conversation.query == "Two [Remaining Pro Search: 5]"  # the user's own words stay
    assert conversation.dropped == Dropped(assistant_messages=1)


def test_it_keeps_every_user_message_of_a_generic_client() -> None:
    messages = [user("You are a pirate"), user("Your role is to sing"), user("Sing")]

    assert prepare(messages, FILTER).history == (user("You are a pirate"), user("Your role is to sing"))


def test_it_drops_the_prompt_blocks_of_lobehub() -> None:
    conversation = prepare(
        [
            system("You are Lobe, an assistant."),
            user("<available_tools>lots</available_tools>"),
            user("Real question"),
            assistant("Answer"),
            user("you are right, but why?"),
        ],
        FILTER,
    )

    assert conversation.client == "lobehub"
    assert conversation.history == (user("Real question"), assistant("Answer"))
    assert conversation.query == "you are right, but why?"  # the last one is never a prompt
    assert conversation.instructions == ("Be brief.",)
    assert conversation.dropped == Dropped(system_lines=1, user_messages=1)


POLICIES: list[tuple[PromptPolicy, str, tuple[str, ...], int]] = [
    (FILTER, "You are Max.\n- Reply in English only", ("Reply in English only", SEARCH_LINE), 1),
    (FILTER, "You are Max.", (SEARCH_LINE,), 1),
    (FILTER, "", (), 0),
    (FILTER, "You are Lobe.", ("Be brief.",), 1),
    (replace(FILTER, custom_text=" "), "You are Lobe.", (), 1),
    (replace(FILTER, client="generic"), "You are Lobe.", (SEARCH_LINE,), 1),
    (replace(FILTER, client="lobehub"), "Anything\nat all", ("Be brief.",), 2),
    (replace(FILTER, whitelist=()), "Reply in English", (SEARCH_LINE,), 1),
    (replace(FILTER, policy="forward"), "You are Max.\nBe kind.", ("You are Max.\nBe kind.",), 0),
    (replace(FILTER, policy="forward"), "You are Lobe.", ("You are Lobe.",), 0),
    (replace(FILTER, policy="forward"), "", (), 0),
    (replace(FILTER, policy="custom"), "You are Max.", ("Be brief.",), 1),
    (replace(FILTER, policy="custom"), "", ("Be brief.",), 0),
]


@pytest.mark.parametrize(("policy", "prompt", "instructions", "dropped"), POLICIES)
def test_it_treats_system_prompts_as_the_key_says(
    policy: PromptPolicy, prompt: str, instructions: tuple[str, ...], dropped: int
) -> None:
    conversation = prepare([system(prompt), user("Hi")], policy)

    assert conversation.instructions == instructions
    assert conversation.dropped.system_lines == dropped


def test_it_joins_system_and_developer_messages() -> None:
    messages = [system("Reply in French"), Message("developer", "Use LaTeX"), user("Hi")]

    assert prepare(messages, FILTER).instructions == ("Reply in French", "Use LaTeX", SEARCH_LINE)


def test_it_adds_instructions_of_its_own() -> None:
    assert prepare([user("Hi")], FILTER, ("Return JSON.",)).instructions == ("Return JSON.",)


def test_it_tells_what_was_dropped_in_a_header() -> None:
    assert Dropped(3, 0, 1).header == "system-lines=3, assistant-messages=1"
    assert Dropped().header == ""


def test_it_sends_the_whole_conversation_as_json() -> None:
    conversation = prepare([system("Reply in German"), user("Hi"), assistant("Hallo"), user("潮?")], FILTER)

    assert json.loads(conversation.whole()) == {
        "query": "潮?",
        "instructions": ["Reply in German", SEARCH_LINE],
        "history": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hallo"}],
    }
    assert "潮" in conversation.whole()


def test_it_leaves_out_what_is_empty() -> None:
    assert prepare([user("Hi")], FILTER).whole() == '{"query": "Hi"}'


def test_it_continues_with_the_question_alone() -> None:
    assert prepare([user("Hi"), assistant("Hello"), user("Tides?")], FILTER).question() == "Tides?"


def test_it_sends_as_much_as_fits_and_never_less() -> None:
    room = LONGEST_QUERY - len('{"query": ""}')

    assert len(prepare([user("x" * room)], FILTER).whole()) == LONGEST_QUERY
    with pytest.raises(BadRequest) as caught:
        prepare([user("x" * (room + 1))], FILTER).whole("input")
    assert (caught.value.param, caught.value.code) == ("input", "context_length_exceeded")
    with pytest.raises(BadRequest):
        prepare([user("x" * (LONGEST_QUERY + 1))], FILTER).question()


ELIGIBLE: list[tuple[list[Message], PromptPolicy, tuple[str, ...], bool]] = [
    ([user("a"), assistant("b"), user("c")], FILTER, (), True),
    ([user("a")], FILTER, (), False),
    ([system("x"), user("a"), assistant("b"), user("c")], FILTER, (), False),
    ([system(" "), user("a"), assistant("b"), user("c")], FILTER, (), True),
    ([user("a"), assistant("b"), user("c")], FILTER, ("Return JSON.",), False),
    ([user("a"), assistant("b"), user("c")], replace(FILTER, client="lobehub"), (), False),
    ([user("a"), assistant("b"), user("c")], replace(FILTER, policy="custom"), (), False),
    ([user("a"), assistant("b"), user("c")], replace(FILTER, policy="forward"), (), True),
]


@pytest.mark.parametrize(("messages", "policy", "extra", "eligible"), ELIGIBLE)
def test_it_continues_a_thread_only_when_the_turns_are_all_there_is(
    messages: list[Message], policy: PromptPolicy, extra: tuple[str, ...], eligible: bool
) -> None:
    assert prepare(messages, policy, extra).may_continue is eligible


SCOPE = Scope("u1", "a1", "gpt56_terra", ("web",), "en-US")
TURNS = (user("hi"), assistant("hello"))


def test_it_digests_a_history_as_the_original_did() -> None:
    assert history_digest(TURNS) == "8ba09e74ddca9dcb"


@pytest.mark.parametrize(
    "other",
    [
        replace(SCOPE, user="u2"),
        replace(SCOPE, account="a2"),
        replace(SCOPE, preference="gpt55"),
        replace(SCOPE, sources=("web", "social")),
        replace(SCOPE, language="de-DE"),
        replace(SCOPE, recency="WEEK"),
        Scope("a1", "u1", "gpt56_terra", ("web",), "en-US"),
    ],
)
def test_it_never_shares_a_thread_across_what_shapes_an_answer(other: Scope) -> None:
    assert continuity_key(other, TURNS) != continuity_key(SCOPE, TURNS)


def test_it_takes_sources_in_any_order() -> None:
    some, same = replace(SCOPE, sources=("web", "social")), replace(SCOPE, sources=("social", "web"))

    assert continuity_key(some, TURNS) == continuity_key(same, TURNS)


@pytest.mark.parametrize(
    "turns",
    [
        (user("hi"), assistant("hello!")),
        (user("hi"),),
        (user("hi"), user("hello")),
        (user("hi\nhello"),),
        (user("hi"), assistant("hello"), user("")),
    ],
)
def test_it_tells_histories_apart(turns: tuple[Message, ...]) -> None:
    assert continuity_key(SCOPE, turns) != continuity_key(SCOPE, TURNS)


texts = (
    st.text(min_size=1)
    .filter(lambda text: text.strip() and "[" not in text)
    .map(lambda text: text.replace("\ud800", ""))
)


@given(texts, texts, texts)
def test_it_finds_the_thread_again_in_the_next_turn(question: str, answer: str, following: str) -> None:
    first = prepare([user(question)], FILTER)
    filed = key_after(SCOPE, first, answer)

    sent_back = assistant(f"{answer}\n\n---\nSources:\n[1] https://a.example\n\n[Remaining Pro Search: 5]")
    second = prepare([user(question), sent_back, user(following)], FILTER)

    assert second.may_continue
    assert key_before(SCOPE, second) == filed


DETECTED = [
    ("You are Lobe, an assistant", [], "lobehub"),
    ("so: <AVAILABLE_SKILLS>", [], "lobehub"),
    ("<skill name='x'>", [], "lobehub"),
    ("call activateSkill", ["developer"], "lobehub"),
    ("call activateSkill", ["user"], "generic"),
    ("call activateSkill, runSkill", [], "generic"),
    ("", ["developer"], "generic"),
    ("You are Max", ["system", "user"], "generic"),
]


@pytest.mark.parametrize(("text", "roles", "client"), DETECTED)
def test_it_detects_lobehub_by_its_score(text: str, roles: list[str], client: str) -> None:
    assert detect(text, roles) == client


def test_it_looks_for_hints_at_the_beginning_only() -> None:
    assert is_prompt_block("YOU MUST obey")
    assert is_prompt_block("請加載技能")
    assert not is_prompt_block("x" * 200 + "you must obey")
    assert not is_prompt_block("What is a tide?")


KEPT: dict[str, tuple[str, list[str], int]] = {
    "the contract's example": (
        "You are Max, a helpful bot.\n- Reply in English only\nNever output <xml>",
        ["Reply in English only"],
        2,
    ),
    "skills": ("<skill name='a'>\n* Respond in French\nBe cheerful\n</skill>", ["Respond in French"], 1),
    "wrappers": ("<rules><rule>Use LaTeX</rule></rules>", ["Use LaTeX"], 0),
    "bullets and blanks": ("\n  - * do not output tables  \n\n", ["do not output tables"], 0),
    "other scripts": (
        "請用繁體中文回覆\n絕對禁止輸出代碼\n你好",
        ["請用繁體中文回覆", "絕對禁止輸出代碼"],
        1,
    ),
    "a language line": ("Conversation language: <de>", ["Conversation language: <de>"], 0),
    "long lines": ("Reply in English " + "x" * 150, [], 1),
    "150 characters": ("reply in " + "x" * 141, ["reply in " + "x" * 141], 0),
    "nothing": ("", [], 0),
}


@pytest.mark.parametrize(("text", "kept", "dropped"), KEPT.values(), ids=KEPT)
def test_it_keeps_the_lines_of_the_whitelist(text: str, kept: list[str], dropped: int) -> None:
    assert allowed_lines(text, WHITELIST) == (kept, dropped)


def test_it_reads_a_whitelist_line_by_line() -> None:
    patterns = compile_whitelist(["# a comment", "", "  ^be kind  "])

    assert allowed_lines("Be kind\nBe quick", patterns) == (["Be kind"], 1)
    assert compile_whitelist([]) == ()
