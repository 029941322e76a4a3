from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.sse import SseDecoder, SseRecord, encode_event
from proxy.protocol.delta import Done, Fault, FaultKind
from proxy.protocol.finishing import Finisher
from proxy.protocol.web_events import WebAnswer
from tests.examples import examples
from tests.proxy.protocol.samples import SAMPLES, Sample, last_of, load, meaning, read, text_of
from tests.tables import of_each

samples = of_each({sample.name: [sample] for sample in SAMPLES})
SHORT = [sample for sample in SAMPLES if len(sample.stream) < 4000]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_it_reads_each_golden_stream(sample: Sample) -> None:
    found = meaning(read([sample.stream], sample.requested))

    assert {name: found.get(name) for name in sample.expected} == sample.expected


@samples
def test_it_reads_a_stream_that_comes_byte_by_byte(sample: Sample) -> None:
    pieces = [sample.stream[at : at + 1] for at in range(len(sample.stream))]

    assert read(pieces, sample.requested) == read([sample.stream], sample.requested)


@samples
def test_it_finds_the_same_records_wherever_a_stream_is_cut_in_two(sample: Sample) -> None:
    whole = SseDecoder().feed(sample.stream)

    for at in range(len(sample.stream)):
        decoder = SseDecoder()
        assert decoder.feed(sample.stream[:at]) + decoder.feed(sample.stream[at:]) == whole


@samples
def test_it_reads_pieces_beside_other_blocks_as_it_reads_them_alone(sample: Sample) -> None:
    beside = [with_another_block(record) for record in SseDecoder().feed(sample.stream)]

    assert read(beside, sample.requested) == read([sample.stream], sample.requested)


def with_another_block(record: SseRecord) -> bytes:
    """The record with a block that says nothing: its frame is then not of pieces alone."""
    data = record.data
    if record.event == "message" and b'"blocks":[' in data:
        data = data.replace(b'"blocks":[]', b'"blocks":[{"an_empty_block":{}}]')
        data = data.replace(b'"blocks":[{"intended', b'"blocks":[{"an_empty_block":{}},{"intended')
    return encode_event(data.decode("utf-8", "replace"), record.event)


@examples(150)
@given(st.sampled_from(SHORT), st.lists(st.integers(0, 4000), max_size=12))
def test_it_tells_the_same_however_a_stream_is_cut(sample: Sample, cuts: list[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(sample.stream)), len(sample.stream)]
    pieces = [sample.stream[start:end] for start, end in itertools.pairwise(edges)]

    assert read(pieces, sample.requested) == read([sample.stream], sample.requested)


@samples
def test_it_never_succeeds_before_the_end_of_the_stream(sample: Sample) -> None:
    ended = sample.stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").find(b"event: end_of_stream")
    decoder, answer, finisher = SseDecoder(), WebAnswer(sample.requested), Finisher()

    for at in range(max(ended, 0)):
        for record in decoder.feed(sample.stream[at : at + 1]):
            told = finisher.pass_on(answer.read(record))
            assert not any(isinstance(delta, Done) for delta in told)
    assert not any(isinstance(delta, Done) for delta in finisher.pass_on(answer.close()))


@samples
def test_it_ends_with_one_verdict_and_tells_nothing_after_it(sample: Sample) -> None:
    deltas = read([sample.stream, sample.stream], sample.requested)

    assert [delta for delta in deltas if isinstance(delta, Done | Fault)] == [last_of(deltas)]


@samples
def test_it_sends_only_what_the_answer_ends_with(sample: Sample) -> None:
    deltas = read([sample.stream], sample.requested)

    if isinstance(last_of(deltas), Done):
        assert text_of(deltas).strip() == sample.expected["content"].strip()


@samples
def test_it_cites_words_that_are_there(sample: Sample) -> None:
    deltas = read([sample.stream], sample.requested)
    last = last_of(deltas)

    if isinstance(last, Done):
        for citation in last.citations:
            assert text_of(deltas)[citation.start : citation.end].strip()
            assert citation.source.url.startswith("http")


@samples
def test_it_fails_when_the_body_ends_early(sample: Sample) -> None:
    end = sample.stream.rfind(b"event: end_of_stream")
    if end < 0 or sample.name == "after-the-end":
        return
    last = last_of(read([sample.stream[:end]], sample.requested))

    assert isinstance(last, Fault)


def test_it_does_not_stop_at_a_frame_that_only_says_final() -> None:
    sample = load("research-diff")
    middle = sample.stream.index(b'"status":"COMPLETED"')

    last = last_of(read([sample.stream[:middle]], sample.requested))

    assert b'"status":"PENDING","final":true' in sample.stream[:middle]
    assert last == Fault(FaultKind.CUT)


def test_it_knows_sources_before_the_text_that_cites_them() -> None:
    """A list at the end of a frame counts for the text at its beginning."""
    names = [type(delta).__name__ for delta in read([load("only-in-the-last-frame").stream], "pplx_pro")]

    assert names.index("SourceFound") < names.index("Text")


def test_it_tells_the_thread_as_soon_as_it_is_known() -> None:
    names = [type(delta).__name__ for delta in read([load("noisy-mirrored").stream], "pplx_pro")]

    assert names[0] == "ThreadKnown"
    assert names.count("ThreadKnown") == 3  # entry, then the token, then the slug
