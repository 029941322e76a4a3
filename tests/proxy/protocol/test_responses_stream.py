from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest, Problem, Unavailable
from portal.wire.sse import SseDecoder
from proxy.protocol.delta import (
    Citation,
    Delta,
    Done,
    ModelUsed,
    Progress,
    Reasoning,
    Source,
    SourceFound,
    Text,
)
from proxy.protocol.finishing import Finisher
from proxy.protocol.response_object import FunctionCall, Head
from proxy.protocol.responses_stream import Closing, Event, ResponseStream, interrupted
from tests.proxy.protocol.response_events import check, read

HEAD = Head("resp_" + "0" * 32, 1_790_000_000, "gpt")
PAGE = Source("https://a.example/harbour", "Harbour guide")
TRAIL: list[Delta] = [
    Reasoning("planning", "Find the tide table"),
    Reasoning("searching", "tides today"),
    SourceFound(1, 1, PAGE),
    Reasoning("reading", PAGE.url),
    Reasoning("found", PAGE.url, PAGE.title),
]
ANSWER: list[Delta] = [Text('High "tide"\n'), Text("is at 06:40 🌊.")]
WHOLE = 'High "tide"\nis at 06:40 🌊.'
CLOSING = Closing(1_790_000_009, 400, Done(WHOLE, (PAGE,), citations=(Citation(12, 22, PAGE),)))


def events_of(
    deltas: list[Delta], closing: Closing = CLOSING, head: Head = HEAD, *, include_sources: bool = False
) -> list[Event]:
    stream = ResponseStream(head, include_sources=include_sources)
    fed = [event for delta in deltas for event in stream.feed([delta])]
    return [*fed, *stream.complete(closing)]


def types_of(payloads: list[dict[str, Any]]) -> list[str]:
    return [payload["type"].removeprefix("response.") for payload in payloads]


def test_it_tells_steps_then_the_message_in_the_order_of_the_reference() -> None:
    assert types_of(check(events_of([*TRAIL, *ANSWER]))) == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        *(2 * SEARCH),
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


SEARCH = [
    "output_item.added",
    "web_search_call.in_progress",
    "web_search_call.searching",
    "web_search_call.completed",
    "output_item.done",
]


def test_it_tells_each_item_as_it_really_was() -> None:
    plan, search, page, found, message = check(events_of([*TRAIL, *ANSWER]))[-1]["response"]["output"]
    assert plan["summary"] == [{"type": "summary_text", "text": "Find the tide table"}]
    assert search["action"] == {"type": "search", "query": "tides today", "queries": ["tides today"]}
    assert page["action"] == {"type": "open_page", "url": PAGE.url}
    assert found["summary"][0]["text"] == f"Found: [Harbour guide]({PAGE.url})"
    assert message["content"] == [
        {
            "type": "output_text",
            "text": WHOLE,
            "annotations": [
                {
                    "type": "url_citation",
                    "start_index": 12,
                    "end_index": 22,
                    "url": PAGE.url,
                    "title": PAGE.title,
                }
            ],
            "logprobs": [],
        }
    ]


def test_it_names_the_pages_a_search_found_when_asked_to() -> None:
    output = check(events_of([*TRAIL, *ANSWER], include_sources=True))[-1]["response"]["output"]
    assert output[1]["action"]["sources"] == [{"type": "url", "url": PAGE.url}]


def test_it_keeps_lines_that_follow_one_another_in_one_item() -> None:
    lines: list[Delta] = [Reasoning("planning", "First"), Progress(3, None), Reasoning("planning", "Second")]
    payloads = check(events_of([*lines, *ANSWER]))
    deltas = [one["delta"] for one in payloads if one["type"].endswith("summary_text.delta")]
    assert deltas == ["First", "\nSecond"]
    assert payloads[-1]["response"]["output"][0]["summary"][0]["text"] == "First\nSecond"


def test_it_gives_a_step_that_comes_after_the_text_an_item_behind_the_message() -> None:
    late: list[Delta] = [Text("High tide "), *TRAIL, Text("is at 06:40.")]
    output = check(events_of(late))[-1]["response"]["output"]
    assert [item["type"] for item in output] == [
        "message",
        "reasoning",
        "web_search_call",
        "web_search_call",
        "reasoning",
    ]
    assert output[0]["content"][0]["text"] == "High tide is at 06:40."


def test_it_joins_the_texts_of_one_read_in_one_event() -> None:
    stream = ResponseStream(HEAD)
    stream.open()
    events = read(stream.feed([Text("a"), Text("b"), ModelUsed("gpt", False), Text("c")]))
    assert [one["delta"] for one in events if one["type"].endswith("text.delta")] == ["ab", "c"]


def test_it_trims_the_text_and_moves_the_citations_with_it() -> None:
    blanks: list[Delta] = [Text(" \n"), Text(" Tide"), Text(" \n "), Text("table. "), Text("\n\n")]
    done = Done("", (PAGE,), citations=(Citation(3, 7, PAGE),))
    [message] = check(events_of(blanks, Closing(1_790_000_001, 4, done)))[-1]["response"]["output"]
    [part] = message["content"]
    assert part["text"] == "Tide \n table."
    [citation] = part["annotations"]
    assert part["text"][citation["start_index"] : citation["end_index"]] == "Tide"


def test_it_leaves_out_a_citation_of_what_was_not_told() -> None:
    done = Done("", (PAGE,), citations=(Citation(0, 99, PAGE), Citation(2, 2, PAGE)))
    [message] = check(events_of([Text("Tide")], Closing(1_790_000_001, 4, done)))[-1]["response"]["output"]
    assert message["content"][0]["annotations"] == []


def test_it_tells_notices_in_a_last_delta_and_does_not_count_them() -> None:
    closing = Closing(1_790_000_009, 400, appendix="\n\n[Remaining Pro Search: 5]", sonde={"sandbox": True})
    payloads = check(events_of([Reasoning("planning", "four"), Text("x" * 40), Text("\n ")], closing))
    deltas = [one["delta"] for one in payloads if one["type"].endswith("output_text.delta")]
    assert deltas[-1] == "\n\n[Remaining Pro Search: 5]"
    response = payloads[-1]["response"]
    assert response["output_text"] == "x" * 40 + deltas[-1]
    assert response["sonde"] == {"sandbox": True}
    assert response["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 11,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 111,
    }


def test_it_ends_an_answer_without_a_word_with_an_empty_message() -> None:
    [message] = check(events_of([], Closing(1_790_000_001, 0)))[-1]["response"]["output"]
    assert message["content"][0]["text"] == ""


def test_it_tells_function_calls_whole() -> None:
    calls = [FunctionCall("call_1", "tide", '{"port":"Kiel"}'), FunctionCall("call_2", "now", "{}")]
    stream = ResponseStream(HEAD)
    payloads = check([*stream.open(), *stream.call(calls), *stream.complete(Closing(1_790_000_001, 40))])
    assert types_of(payloads)[2:-1] == 2 * [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert payloads[2]["item"]["arguments"] == ""
    assert payloads[4]["name"] == "tide"
    response = payloads[-1]["response"]
    assert [item["call_id"] for item in response["output"]] == ["call_1", "call_2"]
    assert response["output_text"] == ""


def test_it_tells_a_queued_response_before_somebody_works_at_it() -> None:
    stream = ResponseStream(Head(HEAD.id, HEAD.created_at, "gpt", {"background": True}))
    first = stream.open(queued=True)
    events = [*first, *stream.begin(), *stream.begin(), *stream.feed(ANSWER), *stream.complete(CLOSING)]
    payloads = check(events)
    assert types_of(payloads)[:3] == ["created", "queued", "in_progress"]
    told = [one["response"] for one in payloads if "response" in one]
    assert [one["status"] for one in told] == ["queued", "queued", "in_progress", "completed"]
    assert all(one["background"] for one in told)


@pytest.mark.parametrize("deltas", [[], TRAIL, TRAIL[:2], [*TRAIL, *ANSWER], ANSWER[:1]])
def test_it_closes_what_is_open_when_it_fails(deltas: list[Delta]) -> None:
    stream = ResponseStream(HEAD)
    events = [*stream.feed(deltas), *stream.fail(Unavailable("The upstream is down."))]
    response = check(events)[-1]["response"]
    assert (response["status"], response["error"]) == (
        "failed",
        {"code": "server_error", "message": "The upstream is down."},
    )
    assert not [item for item in response["output"] if item.get("status") == "in_progress"]


def test_it_tells_a_search_that_was_broken_off_as_failed() -> None:
    stream = ResponseStream(HEAD)
    payloads = check([*stream.feed([Reasoning("searching", "tides")]), *stream.cancel()])
    assert payloads[-1]["response"]["output"][0]["status"] == "failed"
    assert "web_search_call.completed" not in types_of(payloads)


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (BadRequest("no", code="tool_protocol_error"), "tool_protocol_error"),
        (Problem("no", code="upstream_error"), "server_error"),
        (Problem("no", code="rate_limit_exceeded"), "rate_limit_exceeded"),
        (Problem("no"), "server_error"),
    ],
)
def test_it_fails_with_a_code_that_clients_know(problem: Problem, code: str) -> None:
    stream = ResponseStream(HEAD)
    assert read(stream.fail(problem))[-1]["response"]["error"]["code"] == code


def test_it_ends_a_cancelled_response_as_an_incomplete_one_that_says_so() -> None:
    stream = ResponseStream(HEAD)
    last = check([*stream.feed([*TRAIL, *ANSWER]), *stream.cancel()])[-1]
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")
    assert last["response"]["incomplete_details"] is None
    assert last["response"]["output_text"] == WHOLE


def test_it_says_nothing_after_its_end() -> None:
    stream = ResponseStream(HEAD)
    stream.cancel()
    assert stream.over
    with pytest.raises(RuntimeError, match="has ended"):
        stream.feed(ANSWER)


def test_it_tells_what_to_store() -> None:
    stream = ResponseStream(HEAD)
    stream.feed([*TRAIL, *ANSWER])
    last = read(stream.complete(CLOSING))[-1]
    assert stream.response == last["response"]
    assert stream.text == WHOLE


def test_it_breaks_off_a_connection_with_words_that_are_no_event() -> None:
    [record] = SseDecoder().feed(interrupted(Unavailable("The service is restarting.")))
    assert record.event == "error"
    assert json.loads(record.data)["error"]["message"] == "The service is restarting."
    assert "sequence_number" not in json.loads(record.data)


SOURCES = st.builds(Source, st.just("https://a.example/x"), st.text(max_size=8))
DELTAS = st.lists(
    st.one_of(
        st.builds(Text, st.text(max_size=12)),
        st.builds(
            Reasoning,
            st.sampled_from(["searching", "reading", "planning", "found"]),
            st.text(min_size=1, max_size=8),
            st.text(max_size=8),
        ),
        st.builds(SourceFound, st.integers(1, 3), st.just(3), SOURCES),
        st.builds(ModelUsed, st.just("gpt"), st.booleans()),
        st.builds(Progress, st.integers(0, 100), st.none()),
    ),
    max_size=12,
)
READS = st.lists(DELTAS, max_size=6)
CITATIONS = st.lists(st.builds(Citation, st.integers(0, 30), st.integers(0, 30), SOURCES), max_size=4)
END = st.sampled_from(["complete", "fail", "cancel"])


def ended(stream: ResponseStream, end: str, citations: list[Citation]) -> list[Event]:
    if end == "complete":
        return stream.complete(Closing(1_790_000_001, 9, Done("", citations=tuple(citations)), "\n\n[n]"))
    return stream.fail(Problem("It broke.")) if end == "fail" else stream.cancel()


@example([[Text("0")]], [Citation(1, 2, Source("https://a.example"))], "complete")  # a blank of the appendix
@given(READS, CITATIONS, END)
def test_it_keeps_every_rule_whatever_comes_in_whatever_order(
    reads: list[list[Delta]], citations: list[Citation], end: str
) -> None:
    stream = ResponseStream(HEAD, include_sources=True)
    events = [event for deltas in reads for event in stream.feed(deltas)]
    payloads = check([*events, *ended(stream, end, citations)])
    told = "".join(delta.text for deltas in reads for delta in deltas if isinstance(delta, Text)).strip()
    appendix = "\n\n[n]" if end == "complete" else ""
    assert payloads[-1]["response"]["output_text"] == (told + appendix if told else appendix.strip())


@given(READS, READS, END)
def test_it_goes_on_from_its_events_alone(
    before: list[list[Delta]], after: list[list[Delta]], end: str
) -> None:
    stream = ResponseStream(HEAD)
    told = [*stream.open(), *(event for deltas in before for event in stream.feed(deltas))]
    other = ResponseStream.restored(HEAD, told)
    assert (other.text, other.response, other.over) == (stream.text, stream.response, False)
    events = [event for deltas in after for event in other.feed(deltas)]
    check([*told, *events, *ended(other, end, [])])


def test_it_is_read_the_same_wherever_the_network_cuts() -> None:
    whole = b"".join(event.encode() for event in events_of([*TRAIL, *ANSWER]))
    expected = SseDecoder().feed(whole)
    for cut in range(len(whole) + 1):
        decoder = SseDecoder()
        assert decoder.feed(whole[:cut]) + decoder.feed(whole[cut:]) == expected


SAID = "\n\n  One two.[1]\n\n Three four.[1] "


def told_in_two(cut: int, *, by_two: bool) -> list[Event]:
    """SAID in single letters, broken off after `cut` and told from its beginning again: to the same
    process, or to another one that has the events alone."""
    stream, first = ResponseStream(HEAD), Finisher()
    found: list[Delta] = [SourceFound(1, 1, PAGE)]
    events = stream.feed(first.pass_on(found))
    for letter in SAID[:cut]:
        events += stream.feed(first.pass_on([Text(letter)]))
    if by_two:
        stream = ResponseStream.restored(HEAD, events)
    again = Finisher(stream.text if by_two else first.content)
    for letter in SAID:
        events += stream.feed(again.pass_on([*found, Text(letter)]))
    last = again.pass_on([Done(SAID, (PAGE,))])
    assert isinstance(last[-1], Done)
    return events + stream.feed(last) + stream.complete(Closing(1_790_000_009, 400, last[-1]))


@pytest.mark.parametrize("by_two", [False, True])
@pytest.mark.parametrize("cut", range(len(SAID)))
def test_it_cites_the_same_words_wherever_an_answer_broke_off_and_was_taken_up(
    cut: int, by_two: bool
) -> None:
    *_, last = check(told_in_two(cut, by_two=by_two))

    [message] = last["response"]["output"]
    [part] = message["content"]
    assert part["text"] == "One two.\n\n Three four."
    cited = [part["text"][one["start_index"] : one["end_index"]] for one in part["annotations"]]
    assert cited == ["One two.", "Three four."]
