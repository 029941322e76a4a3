"""How silence is told from a slow answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from proxy.protocol.web_request import RESEARCH
from proxy.upstream.patience import OutOfPatience, Patience, Pulse, Watch, patience_for, watched

STREAM = b": one\r\n\r\n: two\n\nevent: message\r\ndata: {}\r\n\r\n: three\r\n"
FIRST_EVENT = STREAM.index(b"event")


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_it_finds_the_first_event_however_the_stream_is_cut(cuts: list[int]) -> None:
    places = sorted({0, len(STREAM), *cuts})
    pulse = Pulse()

    beats = [pulse.is_event(STREAM[start:end]) for start, end in itertools.pairwise(places)]

    first = next(end for start, end in itertools.pairwise(places) if end > FIRST_EVENT)
    assert next(end for end, beat in zip(places[1:], beats, strict=True) if beat) == first


@pytest.mark.parametrize(
    ("pieces", "is_event"),
    [
        ([b": heartbeat\n\n"], False),
        ([b": heart", b"beat: data", b" data:\n\n"], False),
        ([b"\r\n\r\n"], False),
        ([b"data: x"], True),
        ([b":", b"\ndata"], True),
        ([b": a\rdata: b\r"], True),
        ([b""], False),
    ],
)
def test_it_takes_no_heartbeat_for_an_event(pieces: list[bytes], is_event: bool) -> None:
    pulse = Pulse()

    beats = [pulse.is_event(piece) for piece in pieces]
    assert (True in beats) is is_event


def test_it_counts_only_the_time_that_the_upstream_was_waited_for() -> None:
    watch = Watch(Patience(first=5, silence=2, total=100))

    watch.waited(3, for_event=False)
    assert watch.left == pytest.approx(2, abs=0.1)
    watch.waited(1, for_event=True)
    assert watch.left == pytest.approx(2, abs=0.1)
    watch.waited(1.5, for_event=False)
    assert watch.left == pytest.approx(0.5, abs=0.1)


def test_it_gives_nothing_once_the_whole_is_over() -> None:
    assert Watch(Patience(first=100, silence=100, total=0)).left == 0


async def test_it_gives_no_more_than_the_whole_allows() -> None:
    async def chatty() -> AsyncGenerator[bytes, None]:
        while True:
            await asyncio.sleep(0.01)
            yield b"data: x\n\n"

    with pytest.raises(OutOfPatience):
        async for _ in watched(chatty(), Watch(Patience(first=1, silence=1, total=0.1))):
            pass


def test_it_has_more_patience_with_research(settings: Settings) -> None:
    usual, research = patience_for("gpt56_terra"), patience_for(RESEARCH)

    assert usual == Patience(90, 45, 900)
    assert research.silence > 60  # a pause for questions that nobody answers (perplexity-web §8)
    assert research.total > usual.total
