"""How silence is told from a slow answer."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from proxy.protocol.web_request import RESEARCH
from proxy.upstream.patience import OutOfPatience, Patience, Pulse, Watch, patience_for, watched

STREAM = b": one\r\n\r\n: two\n\nevent: message\r\ndata: {}\r\n\r\n: three\r\n"
FIRST_EVENT = STREAM.index(b"event")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def __iadd__(self, seconds: float) -> Clock:
        self.now += seconds
        return self

    def wait(self, watch: Watch, seconds: float, *, event: bool) -> None:
        watch.wait()
        self.now += seconds
        watch.heard(event=event)


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


def test_it_counts_only_the_time_that_the_upstream_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Clock()
    monkeypatch.setattr(time, "monotonic", now)
    watch = Watch(Patience(first=5, silence=2, total=100))

    now.wait(watch, 3, event=False)
    now += 60  # whoever reads takes his time
    assert watch.left == 2
    now.wait(watch, 1, event=True)
    assert watch.left == 2
    now.wait(watch, 1.5, event=False)
    assert watch.left == 0.5
    watch.wait()
    now += 0.25
    assert watch.left == 0.25


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


async def test_it_is_silent_once_it_has_spoken_for_as_long_as_silence_may_last() -> None:
    """However long the first word may take."""

    async def one_word() -> AsyncGenerator[bytes, None]:
        yield b"data: x\n\n"
        await asyncio.sleep(60)

    began, chunks = time.monotonic(), watched(one_word(), Watch(Patience(first=30, silence=0.1, total=60)))
    await anext(chunks)

    with pytest.raises(OutOfPatience):
        await anext(chunks)
    assert 0.1 <= time.monotonic() - began < 10


async def test_it_lets_events_put_the_end_off() -> None:
    async def slow() -> AsyncGenerator[bytes, None]:
        for _ in range(8):
            await asyncio.sleep(0.05)
            yield b"data: x\n\n"
        for _ in range(60):
            await asyncio.sleep(0.05)
            yield b": heartbeat\n\n"

    came: list[bytes] = []
    with suppress(OutOfPatience):
        async for chunk in watched(slow(), Watch(Patience(first=1, silence=0.3, total=60))):
            came.append(chunk)

    assert came.count(b"data: x\n\n") == 8
    assert 0 < came.count(b": heartbeat\n\n") < 60


async def test_it_does_not_count_how_long_its_reader_takes() -> None:
    async def prompt() -> AsyncGenerator[bytes, None]:
        for _ in range(4):
            yield b"data: x\n\n"

    count = 0
    async for _ in watched(prompt(), Watch(Patience(first=0.1, silence=0.1, total=60))):
        await asyncio.sleep(0.15)
        count += 1
    assert count == 4


async def test_it_sets_no_timer_for_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def many() -> AsyncGenerator[bytes, None]:
        for _ in range(100):
            await asyncio.sleep(0)
            yield b"data: x\n\n"

    loop, count = asyncio.get_running_loop(), 0
    before = loop.call_at

    def call_at(*given: Any, **named: Any) -> asyncio.TimerHandle:
        nonlocal count
        count += 1
        return before(*given, **named)

    monkeypatch.setattr(loop, "call_at", call_at)
    async for _ in watched(many(), Watch(Patience(first=5, silence=5, total=60))):
        pass
    assert count == 2  # the first event sets it anew


def test_it_has_more_patience_with_research(settings: Settings) -> None:
    usual, research = patience_for("gpt56_terra"), patience_for(RESEARCH)

    assert usual == Patience(90, 45, 900)
    assert research.silence > 60  # a pause for questions that nobody answers (perplexity-web §8)
    assert research.total > usual.total
