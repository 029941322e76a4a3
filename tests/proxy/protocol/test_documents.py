from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.protocol.answer_text import AnswerText
from proxy.protocol.documents import Block, Documents


def diff(*patches: dict[str, Any], usage: str = "ask_text", field: str = "markdown_block") -> dict[str, Any]:
    return {"intended_usage": usage, "diff_block": {"field": field, "patches": list(patches)}}


def whole(value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": "", "value": value}


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def test_it_hands_materialised_blocks_on() -> None:
    blocks = [
        {"intended_usage": "plan", "plan_block": {"goals": []}, "other": {"x": 1}},
        5,
        {"plan_block": 7},
    ]

    assert list(Documents().read(blocks)) == [Block("plan", "plan_block", {"goals": []})]


def test_it_builds_a_document_per_use_and_field() -> None:
    documents = Documents()
    list(
        documents.read(
            [diff(whole({"chunks": ["a"]})), diff(whole({"chunks": ["b"]}), usage="ask_text_0_markdown")]
        )
    )

    (block,) = documents.read([diff(add("/chunks/1", "c"))])

    assert block.value == {"chunks": ["a", "c"]}
    assert block.kept
    assert block.fresh("chunks") == [(1, "c")]


def test_it_knows_what_a_patch_touched() -> None:
    documents = Documents()
    list(documents.read([diff(whole({"steps": [{"status": "x"}, {"status": "x"}], "goals": [], "pct": 1}))]))

    (block,) = documents.read(
        [diff(add("/steps/1/status", "y"), add("/steps/-", {"status": "z"}), add("/pct", 2))]
    )

    assert block.fresh("steps") == [(1, {"status": "y"}), (2, {"status": "z"})]
    assert block.fresh("goals") == []


def test_it_calls_all_of_a_new_document_fresh() -> None:
    (block,) = Documents().read([diff(whole({"steps": []}), add("/steps/0", 1), add("/steps/1", 2))])

    assert block.fresh("steps") == [(0, 1), (1, 2)]


def test_it_forgets_a_document_when_a_patch_does_not_fit() -> None:
    documents = Documents()
    list(documents.read([diff(whole({"chunks": []}))]))

    assert list(documents.read([diff(add("/chunks/7", "x"))])) == []
    assert list(documents.read([diff(add("/progress", "IN_PROGRESS"))])) == []
    assert documents.lost == {("ask_text", "markdown_block")}


def test_it_takes_a_lost_document_up_again_when_it_comes_whole() -> None:
    documents = Documents()
    list(documents.read([diff(add("/chunks/7", "x"))]))

    (block,) = documents.read([diff(whole({"chunks": ["y"]}))])

    assert block.value == {"chunks": ["y"]}
    assert documents.lost == set()


def test_it_refuses_operations_that_could_blow_a_document_up() -> None:
    documents = Documents()
    list(documents.read([diff(whole({"a": [1]}))]))
    bomb = [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(12)]

    assert list(documents.read([diff(*bomb)])) == []


def test_it_gives_chunks_out_in_their_order() -> None:
    text = AnswerText()

    assert text.place(0, ["a", "b"]) == "ab"
    assert text.place(3, ["d"]) == ""
    assert text.place(2, ["c"]) == "cd"
    assert text.place(None, ["e"]) == "e"
    assert text.place(1, ["b", "c"]) == ""
    assert (text.text, text.size, text.corrected) == ("abcde", 5, False)


def test_it_knows_that_a_chunk_never_came() -> None:
    text = AnswerText()
    text.place(1, ["b"])

    assert text.has_hole


def test_it_lets_the_last_chunk_grow() -> None:
    text = AnswerText()
    text.place(0, ["a", "b"])

    assert text.place(1, ["bc"]) == "c"
    assert (text.text, text.corrected) == ("abc", False)


def test_it_remembers_what_was_changed_after_it_was_handed_on() -> None:
    text = AnswerText()
    text.place(0, ["a", "b", "c"])

    assert text.place(0, ["x"]) == ""
    assert (text.text, text.size, text.corrected) == ("xbc", 3, True)


def test_it_remembers_what_was_taken_back() -> None:
    text = AnswerText()
    text.place(0, ["a", "b", "c"])
    text.cut(2)

    assert (text.text, text.corrected) == ("ab", True)


def test_it_takes_nothing_back_that_never_came() -> None:
    text = AnswerText()
    text.place(0, ["a", "b"])

    text.cut(5)

    assert (text.text, text.corrected) == ("ab", False)


def test_it_follows_a_text_that_is_sent_whole() -> None:
    text = AnswerText()

    assert [text.grow(whole) for whole in ("", "ab", "ab", "abc", "xbc")] == ["", "ab", "", "c", ""]
    assert (text.text, text.corrected) == ("xbc", True)


@given(st.permutations(list(enumerate("tides come in and go"))))
def test_it_puts_chunks_together_in_whatever_order_they_come(pieces: list[tuple[int, str]]) -> None:
    text = AnswerText()

    out = "".join(text.place(index, [chunk]) for index, chunk in pieces)

    assert out == text.text == "tides come in and go"
