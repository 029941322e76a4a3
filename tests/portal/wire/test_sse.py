from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.sse import SseDecoder, SseRecord, SseTooLong, encode_comment, encode_event

CASES: dict[str, tuple[bytes, list[tuple[str, str]]]] = {
    "crlf": (b"event: message\r\ndata: {}\r\n\r\n", [("message", "{}")]),
    "lf": (b"event: a\ndata: 1\n\n", [("a", "1")]),
    "cr": (b"event: a\rdata: 1\r\rdata: 2\r\r", [("a", "1"), ("message", "2")]),
    "mixed ends": (b"event: a\r\ndata: 1\rdata: 2\n\r\n", [("a", "1\n2")]),
    "no space after the colon": (b"data:1\n\n", [("message", "1")]),
    "only one space is dropped": (b"data:  1 \n\n", [("message", " 1 ")]),
    "several data lines": (b"data: 1\ndata:\ndata: 3\n\n", [("message", "1\n\n3")]),
    "an empty data line": (b"data\n\n", [("message", "")]),
    "comments": (b": hi\n\n:\ndata: 1\n: hi\n\n", [("message", "1")]),
    "unknown fields": (b"id: 7\nretry: 5\nnonsense\ndata: 1\n\n", [("message", "1")]),
    "an event without data": (b"event: a\n\ndata: 1\n\n", [("message", "1")]),
    "the last event name": (b"event: a\nevent: b\ndata: 1\n\n", [("b", "1")]),
    "a name does not outlive its record": (
        b"event: a\ndata: 1\n\ndata: 2\n\n",
        [("a", "1"), ("message", "2")],
    ),
    "blank lines": (b"\n\n\r\n\rdata: 1\n\n\n\n", [("message", "1")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: 1\n\n", [("message", "1")]),
    "a byte order mark inside": (b"data: \xef\xbb\xbf1\n\n", [("message", "\ufeff1")]),
    "an unfinished record": (b"data: 1\n\ndata: 2\n", [("message", "1")]),
    "an unfinished line": (b"data: 1\n\ndata: 2", [("message", "1")]),
    "characters of several bytes": ("data: Ebbe 🌊 潮\n\n".encode(), [("message", "Ebbe 🌊 潮")]),
    "bytes that are no UTF-8": (b"event: \xff\ndata: a\xffb\n\n", [("\ufffd", "a\ufffdb")]),
    "other line separators are text": (
        "data: a\u2028b\x0bc\x85d\n\n".encode(),
        [("message", "a\u2028b\x0bc\x85d")],
    ),
    "a colon in the value": (b"data: a: b\n\n", [("message", "a: b")]),
    "a colon alone": (b"data: 1\n:\n\n", [("message", "1")]),
}
cases = pytest.mark.parametrize(("stream", "records"), CASES.values(), ids=CASES)


def shown(records: list[SseRecord]) -> list[tuple[str, str]]:
    return [(record.event, record.text) for record in records]


@cases
def test_it_reads_as_the_standard_says(stream: bytes, records: list[tuple[str, str]]) -> None:
    assert shown(SseDecoder().feed(stream)) == records


@cases
def test_it_reads_byte_by_byte(stream: bytes, records: list[tuple[str, str]]) -> None:
    decoder = SseDecoder()

    found = [record for byte in stream for record in decoder.feed(bytes([byte]))]

    assert shown(found) == records


@cases
def test_it_reads_a_stream_cut_anywhere(stream: bytes, records: list[tuple[str, str]]) -> None:
    for at in range(len(stream) + 1):
        decoder = SseDecoder()
        assert shown(decoder.feed(stream[:at]) + decoder.feed(b"") + decoder.feed(stream[at:])) == records


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_it_finds_the_same_in_any_bytes_however_they_are_cut(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(stream)]
    decoder = SseDecoder()

    found = [record for start, end in itertools.pairwise(edges) for record in decoder.feed(stream[start:end])]

    assert found == SseDecoder().feed(stream)


@given(st.text(), st.sampled_from([None, "message", "response.created"]))
def test_it_reads_back_what_it_writes(data: str, event: str | None) -> None:
    data = data.encode("utf-8", "replace").decode()

    (record,) = SseDecoder().feed(encode_comment() + encode_event(data, event) + encode_comment("still here"))

    assert record.event == (event or "message")
    assert record.text == data.replace("\r\n", "\n").replace("\r", "\n")


def test_it_writes_no_event_line_for_a_plain_message() -> None:
    assert encode_event("{}") == b"data: {}\n\n"
    assert encode_event("{}", "done") == b"event: done\ndata: {}\n\n"
    assert encode_comment() == b": keepalive\n\n"


@pytest.mark.parametrize("beginning", [b"data: ", b": ", b"", b"data: 1\ndata: "])
def test_it_gives_up_on_a_record_without_an_end(beginning: bytes) -> None:
    decoder = SseDecoder(longest=1000)
    decoder.feed(beginning + b"x" * 980)

    with pytest.raises(SseTooLong):
        decoder.feed(b"x" * 21)


def test_it_takes_the_largest_frames_of_the_upstream() -> None:
    """The last frame of a deep research has 0.6 MB and more (perplexity-web §5)."""
    frame = b"x" * (4 * 1024 * 1024)
    stream, decoder = b"data: " + frame + b"\n\n", SseDecoder()

    pieces = (stream[start : start + 65_536] for start in range(0, len(stream), 65_536))

    assert [record.data for piece in pieces for record in decoder.feed(piece)] == [frame]


def test_it_counts_the_lines_of_an_open_record_too() -> None:
    decoder = SseDecoder(longest=1000)
    decoder.feed(b"data: 4567\n" * 200)

    with pytest.raises(SseTooLong):
        decoder.feed(b"data: 4567\n")


def test_it_takes_any_number_of_records_that_do_end() -> None:
    decoder = SseDecoder(longest=1000)

    assert sum(len(decoder.feed(b"data: " + b"x" * 500 + b"\n\n")) for _ in range(100)) == 100
