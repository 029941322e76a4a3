from __future__ import annotations

import pytest

from proxy.protocol.citing import locate
from proxy.protocol.cleaning import Mark, clean
from proxy.protocol.delta import Citation, Delta, Done, Fault, FaultKind, Progress, Source, SourceFound, Text
from proxy.protocol.finishing import Finisher

A, B, C = (Source(f"https://{name}.example/", name) for name in "abc")


def found(*sources: Source) -> list[Delta]:
    return [SourceFound(number, len(sources), source) for number, source in enumerate(sources, 1)]


def finish(*deltas: Delta) -> tuple[str, Done | Fault]:
    told = Finisher().pass_on(list(deltas))
    last = told[-1]
    assert isinstance(last, Done | Fault)
    return "".join(delta.text for delta in told if isinstance(delta, Text)), last


def cited(text: str, last: Done | Fault) -> list[tuple[str, str]]:
    assert isinstance(last, Done)
    return [(text[one.start : one.end], one.source.title) for one in last.citations]


def test_it_keeps_a_long_answer_in_few_pieces() -> None:
    """Thousands of streams are open at once; the text is the same however it is kept."""
    finisher, pieces = Finisher(), [f"tide {number} " for number in range(500)]
    told = [delta for piece in pieces for delta in finisher.pass_on([Text(piece)])]
    assert finisher.content == "".join(delta.text for delta in told if isinstance(delta, Text))
    assert finisher.content == "".join(pieces).rstrip()
    assert len(finisher._pieces) < len(pieces) / 8


def test_it_hands_other_deltas_on_as_they_are() -> None:
    assert Finisher().pass_on([Progress(3, 4), *found(A)]) == [Progress(3, 4), *found(A)]


def test_it_sends_the_rest_that_only_the_end_tells() -> None:
    assert finish(Text("Half"), Done("Half and half."))[0] == "Half and half."


def test_it_cleans_the_rest_too() -> None:
    text, last = finish(*found(A), Text("Half"), Done("Half and half[1].", (A,)))

    assert text == "Half and half."
    assert cited(text, last) == [("Half and half", "a")]


SAME: dict[str, tuple[str, str, str]] = {
    "renumbered": ("One[1]. Two[2].", "One[2]. Two[1].", "One. Two."),
    "a mark less": ("One[1]. Two[2].", "One. Two[1].", "One. Two."),
    "a mark more": ("One. Two.", "One[1]. Two[2].", "One. Two."),
    "trimmed": (" One.\n", "One.", " One.\n"),
    "padded": ("One.", " One.\n\n", "One.\n\n"),
    "trimmed and longer": ("\nOne.", "One. Two.", "\nOne. Two."),
}


@pytest.mark.parametrize(("streamed", "ended", "sent"), SAME.values(), ids=SAME)
def test_it_takes_two_tellings_for_one_when_only_marks_or_outer_blanks_differ(
    streamed: str, ended: str, sent: str
) -> None:
    text, last = finish(*found(A, B), Text(streamed), Done(ended, (A, B)))

    assert isinstance(last, Done)
    assert text == sent


@pytest.mark.parametrize("ended", ["No.", "Yes", "Yes, but.", "yes.", "Well. Yes."])
def test_it_fails_when_the_end_says_something_else(ended: str) -> None:
    assert finish(Text("Yes. Surely."), Done(ended))[1] == Fault(FaultKind.REWRITTEN)


def test_it_finds_the_marks_of_the_last_telling_in_what_was_sent() -> None:
    """`[2]` was sent, since only one source was known then; the last list has two."""
    text, last = finish(*found(A), Text("One[2]. Two[1]."), Done("One[2]. Two[1].", (A, B)))

    assert text == "One[2]. Two."
    assert cited(text, last) == [("One", "b"), ("Two", "a")]


def test_it_leaves_no_blank_where_a_mark_stood_before_a_stop() -> None:
    pieces = [Text(piece) for piece in ("Water rises ", "[1", "] [2]", ". And falls [1].")]
    text, last = finish(*found(A, B), *pieces, Done("Water rises [1] [2]. And falls [1].", (A, B)))
    assert text == "Water rises. And falls."
    assert cited(text, last) == [("Water rises", "a"), ("Water rises", "b"), ("And falls", "a")]


def test_it_moves_the_marks_with_outer_blanks() -> None:
    text, last = finish(*found(A), Text("\n\nOne. Two[1].\n"), Done("One. Two[1].", (A,)))

    assert text == "\n\nOne. Two.\n"
    assert cited(text, last) == [("Two", "a")]


def test_it_calls_an_answer_of_marks_only_empty() -> None:
    assert finish(*found(A), Text("[1]"), Done("[1]", (A,)))[1] == Fault(FaultKind.EMPTY)


def test_it_keeps_the_last_word_with_its_marks() -> None:
    last = finish(*found(A), Text("One[1]"), Done("One[1].", (A,)))[1]

    assert isinstance(last, Done)
    assert last.answer == "One[1]."


SPANS: dict[str, tuple[str, list[str]]] = {
    "the sentence before": ("First. Second one[1]. Third.", ["Second one"]),
    "behind the full stop": ("First. Second one.[1] Third.", ["Second one."]),
    "two marks at one place": ("First. Second[1][2].", ["Second", "Second"]),
    "the same mark twice": ("First[1][1].", ["First"]),
    "one line only": ("First\nSecond[1]", ["Second"]),
    "without list and heading signs": ("- **Point[1]**", ["Point"]),
    "a table cell": ("| one | two[1] |", ["one | two"]),
    "the words after it at the start of a line": ("[1] Opening words. More.", ["Opening words."]),
    "other scripts": ("潮。満ちる[1]。", ["満ちる"]),
    "questions": ("Really? Yes[1]!", ["Yes"]),
    "nothing around it": ("One[1].\n\n[2]\n", ["One"]),
}


@pytest.mark.parametrize(("answer", "spans"), SPANS.values(), ids=SPANS)
def test_it_cites_the_words_before_a_mark(answer: str, spans: list[str]) -> None:
    content, marks = clean(answer, 3)

    assert [content[one.start : one.end] for one in locate(content, marks, (A, B, C))] == spans


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "javascript:alert(1)", "ftp://a.example", "http://"]
)
def test_it_cites_web_addresses_only(url: str) -> None:
    assert locate("Word", (Mark(4, 1),), (Source(url),)) == ()


def test_it_cites_nothing_for_a_number_without_a_source() -> None:
    assert locate("Word", (Mark(4, 2),), (A,)) == ()
    assert locate("Word", (Mark(4, 1),), (A,)) == (Citation(0, 4, A),)


def take_up(told: str, *deltas: Delta) -> tuple[list[str], Done | Fault]:
    """The pieces that come after `told` when the answer is told from its beginning again."""
    heard = Finisher(told).pass_on(list(deltas))
    last = heard[-1]
    assert isinstance(last, Done | Fault)
    return [delta.text for delta in heard if isinstance(delta, Text)], last


@pytest.mark.parametrize("cut", range(1, len("One two three.")))
def test_it_passes_over_what_was_told_before_wherever_that_ended(cut: int) -> None:
    whole = "One two three."

    pieces, last = take_up(whole[:cut], *(Text(letter) for letter in whole), Done(whole))

    assert "".join(pieces) == whole[cut:]
    assert isinstance(last, Done)


@pytest.mark.parametrize("blanks", ["", "\n\n"])
def test_it_goes_on_at_once_where_it_is_in_step_again(blanks: str) -> None:
    again = (Text(f"{blanks}One two"), Text(" three."), Done(f"{blanks}One two three."))

    assert take_up(f"{blanks}One", *again)[0] == [" two", " three."]


def test_it_takes_no_notice_of_blanks_before_an_answer_that_was_told() -> None:
    assert take_up("One", Text("\n\nOne two."), Done("\n\nOne two."))[0] == [" two."]


def test_it_waits_for_the_end_where_the_answer_is_told_otherwise() -> None:
    again = (Text("One two"), *found(A), Text(" three."))

    pieces, last = take_up("One[1] two", *again, Done("One[1] two three.", (A,)))

    assert pieces == [" three."]
    assert isinstance(last, Done)


def test_it_finds_an_answer_rewritten_that_contradicts_what_was_told() -> None:
    assert take_up("One", Text("Two"), Done("Two")) == ([], Fault(FaultKind.REWRITTEN))


def test_it_cites_the_whole_text_that_was_told_in_two_parts() -> None:
    _, last = take_up(
        "One two.", *found(A), Text("One two.[1] Three.[1]"), Done("One two.[1] Three.[1]", (A,))
    )

    assert cited("One two. Three.", last) == [("One two.", "a"), ("Three.", "a")]
