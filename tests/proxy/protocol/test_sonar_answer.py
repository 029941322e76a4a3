from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perplexity.types.stream_chunk import StreamChunk
from pydantic import TypeAdapter

from portal.wire.errors import RateLimited
from portal.wire.sse import SseDecoder, SseRecord
from proxy.protocol.delta import Delta, Done, Progress, Reasoning, Source, SourceFound, Text
from proxy.protocol.sonar_answer import SonarEnd, SonarFold, SonarHead
from proxy.protocol.sonar_stream import ConciseStream, FullStream, SonarStream, error_record

CHUNK: TypeAdapter[StreamChunk] = TypeAdapter(StreamChunk)
HEAD = SonarHead("id", 1786767120, "sonar-pro")
A = Source("https://a.org", "A", "blue light", "2026-05-01")
B = Source("https://b.org")
END = SonarEnd(Done("It scatters [1].", (A, B)), 40, sonde={"sandbox": True})
READS: list[list[Delta]] = [
    [Reasoning("planning", "Find out"), Reasoning("searching", "why blue")],
    [Reasoning("found", "https://a.org", "A"), SourceFound(1, 1, A)],
    [Reasoning("reading", "https://a.org")],
    [Text("It "), Text("scatters")],
    [Progress(50, None)],
    [Text(" [1]."), SourceFound(2, 2, B)],
]
KINDS: dict[str, Callable[[SonarHead], SonarStream]] = {"full": FullStream, "concise": ConciseStream}


def play(stream: SonarStream, reads: list[list[Delta]], end: SonarEnd = END) -> bytes:
    return b"".join(map(stream.encode, reads)) + stream.finish(end)


def records(raw: bytes, step: int = 0) -> list[SseRecord]:
    """As a client reads them that gets `step` bytes at a time."""
    decoder = SseDecoder()
    cuts = range(0, len(raw), step or len(raw))
    return [record for at in cuts for record in decoder.feed(raw[at : at + (step or len(raw))])]


def chunks(raw: bytes) -> list[dict[str, Any]]:
    found = records(raw)
    assert found.pop().data == b"[DONE]"
    return [json.loads(record.data) for record in found]


def deltas_of(shown: list[dict[str, Any]]) -> str:
    return "".join(chunk["choices"][0]["delta"]["content"] for chunk in shown)


@pytest.mark.parametrize("mode", KINDS)
def test_it_streams_chunks_of_sonar_s_own_type(mode: str) -> None:
    for chunk in chunks(play(KINDS[mode](HEAD), READS)):
        CHUNK.validate_python(chunk, strict=True)
        assert (chunk["id"], chunk["created"], chunk["model"]) == ("id", 1786767120, "sonar-pro")


@pytest.mark.parametrize("mode", KINDS)
def test_it_streams_the_same_however_it_is_cut(mode: str) -> None:
    raw = play(KINDS[mode](HEAD), READS)
    whole = records(raw)
    for step in range(1, 40):
        assert records(raw, step) == whole


def test_it_repeats_the_text_so_far_in_full_mode() -> None:
    shown = chunks(play(FullStream(HEAD), READS))
    assert {chunk["object"] for chunk in shown} == {"chat.completion.chunk"}
    so_far = [chunk["choices"][0]["message"]["content"] for chunk in shown]
    assert so_far == ["", "", "", "It scatters", "It scatters [1].", "It scatters [1]."]
    assert shown[1]["citations"] == ["https://a.org"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in shown] == [None] * 5 + ["stop"]


def test_it_tells_the_cost_at_the_end_only() -> None:
    shown = chunks(play(FullStream(HEAD), READS))
    assert ["request_cost" in chunk["usage"]["cost"] for chunk in shown] == [False] * 5 + [True]
    assert shown[-1]["usage"]["num_search_queries"] == 2
    assert shown[-1]["sonde"] == {"sandbox": True}


def test_it_keeps_the_order_of_the_concise_mode() -> None:
    shown = chunks(play(ConciseStream(HEAD), READS))
    assert [chunk["object"] for chunk in shown] == [
        *["chat.reasoning"] * 3,
        "chat.reasoning.done",
        *["chat.completion.chunk"] * 2,
        "chat.completion.done",
    ]
    assert deltas_of(shown) == shown[-1]["choices"][0]["message"]["content"] == "It scatters [1]."
    assert shown[3]["citations"] == ["https://a.org"]
    assert shown[-1]["citations"] == ["https://a.org", "https://b.org"]
    assert all("citations" not in chunk for chunk in shown[4:6])


def test_it_tells_late_steps_at_the_end_of_a_concise_stream() -> None:
    late: list[list[Delta]] = [[Text("Blue.")], [Reasoning("searching", "why")]]
    shown = chunks(play(ConciseStream(HEAD), late))
    assert [chunk["object"] for chunk in shown] == [
        "chat.reasoning.done",
        "chat.completion.chunk",
        "chat.completion.done",
    ]
    assert shown[-1]["choices"][0]["message"]["reasoning_steps"][0]["thought"] == "Searching: why"


def test_it_shows_each_step_in_its_kind() -> None:
    steps = chunks(play(ConciseStream(HEAD), READS))[3]["choices"][0]["message"]["reasoning_steps"]
    assert [step.get("type") for step in steps] == [None, "web_search", "web_search", "fetch_url_content"]
    assert steps[1]["web_search"]["search_keywords"] == ["why blue"]
    assert steps[2]["web_search"]["search_results"][0]["url"] == "https://a.org"
    assert steps[3]["fetch_url_content"]["contents"][0]["title"] == "https://a.org"


@pytest.mark.parametrize("mode", KINDS)
def test_it_puts_notices_behind_the_text(mode: str) -> None:
    end = SonarEnd(END.done, 40, ("[Remaining Pro Search: 5]",))
    shown = chunks(play(KINDS[mode](HEAD), READS, end))
    whole = shown[-1]["choices"][0]["message"]["content"]
    assert whole == "It scatters [1].\n\n[Remaining Pro Search: 5]" == deltas_of(shown)


def test_it_says_nothing_for_a_read_without_news() -> None:
    for stream in (FullStream(HEAD), ConciseStream(HEAD)):
        assert stream.encode([Progress(1, 2), SourceFound(1, 1, A)]) == b""


def test_it_fails_by_an_event_that_sdks_raise() -> None:
    [record] = records(error_record(RateLimited("Wait.")))
    assert record.event == "error"
    assert json.loads(record.data)["error"]["type"] == "request_rate_limit_exceeded"


def test_it_folds_the_plain_answer() -> None:
    fold = SonarFold()
    for read in READS:
        fold.add(read)
    body: Any = fold.body(HEAD, END)
    CHUNK.validate_python(body, strict=True)
    assert body["object"] == "chat.completion"
    [choice] = body["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "It scatters [1].")
    assert choice["delta"] == {"role": "assistant", "content": ""}
    assert body["search_results"][0] == {
        "title": "A",
        "url": "https://a.org",
        "date": "2026-05-01",
        "last_updated": None,
        "snippet": "blue light",
        "source": "web",
    }


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
DELTAS: st.SearchStrategy[Delta] = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Reasoning, st.sampled_from(["searching", "reading", "planning", "found"]), TEXTS, TEXTS),
    st.builds(SourceFound, st.integers(1, 5), st.just(5), st.builds(Source, TEXTS, TEXTS, TEXTS, TEXTS)),
)


@given(st.lists(st.lists(DELTAS, min_size=1, max_size=4), max_size=8))
def test_it_ends_with_all_that_it_said_whatever_comes(reads: list[list[Delta]]) -> None:
    said = "".join(delta.text for read in reads for delta in read if isinstance(delta, Text))
    for make in KINDS.values():
        shown = chunks(play(make(HEAD), reads))
        for chunk in shown:
            CHUNK.validate_python(chunk, strict=True)
        assert deltas_of(shown) == shown[-1]["choices"][0]["message"]["content"] == said
