"""How silence is told from a slow answer."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from proxy.protocol.delta import FaultKind
from proxy.protocol.web_request import RESEARCH
from proxy.upstream.exchange import Lost
from proxy.upstream.patience import Patience, Pulse, Watch, patience_for
from proxy.upstream.web import Broke, Opened

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


EVENT, HEARTBEAT = b"data: x\n\n", b": heartbeat\n\n"


class Speaker:
    """An upstream that says one thing after the other, each after so many seconds, and then no more."""

    status, headers, set_cookies, is_over = 200, dict[str, str](), (), False

    def __init__(self, *says: tuple[float, bytes]) -> None:
        self._says = list(says)
        self._broken = asyncio.Event()

    async def read(self) -> bytes:
        seconds, said = self._says.pop(0) if self._says else (60, b"")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._broken.wait(), seconds)
            raise Lost
        return said

    def break_off(self) -> None:
        self._broken.set()

    async def close(self) -> None: ...


async def broke_off(patience: Patience, *says: tuple[float, bytes]) -> list[bytes]:
    """What came before patience was at its end."""
    opened, came = Opened(Speaker(*says), Watch(patience)), list[bytes]()

    async def read_on() -> None:
        while True:
            came.append(await opened.read())

    with pytest.raises(Broke) as broke:
        await read_on()
    assert broke.value.fault.kind is FaultKind.TIMED_OUT
    await opened.close()
    return came


async def test_it_gives_no_more_than_the_whole_allows() -> None:
    came = await broke_off(Patience(first=1, silence=1, total=0.1), *[(0.01, EVENT)] * 100)

    assert 0 < len(came) < 20


async def test_it_is_silent_once_it_has_spoken_for_as_long_as_silence_may_last() -> None:
    """However long the first word may take."""
    began = time.monotonic()

    assert await broke_off(Patience(first=30, silence=0.1, total=60), (0, EVENT)) == [EVENT]
    assert 0.1 <= time.monotonic() - began < 10


async def test_it_lets_events_put_the_end_off() -> None:
    says = [(0.05, EVENT)] * 8 + [(0.05, HEARTBEAT)] * 60
    came = await broke_off(Patience(first=1, silence=0.3, total=60), *says)

    assert came.count(EVENT) == 8
    assert 0 < came.count(HEARTBEAT) < 60


async def test_it_does_not_count_how_long_its_reader_takes() -> None:
    opened = Opened(Speaker(*[(0, EVENT)] * 4), Watch(Patience(first=0.1, silence=0.1, total=60)))
    for _ in range(4):
        assert await opened.read() == EVENT
        await asyncio.sleep(0.15)
    await opened.close()


async def test_it_does_not_count_what_nobody_waits_for_any_more() -> None:
    speaker = Speaker((9, EVENT))
    opened = Opened(speaker, Watch(Patience(first=0.1, silence=0.1, total=60)))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(opened.read(), 0.05)

    await asyncio.sleep(0.1)

    assert not speaker._broken.is_set()


async def test_it_sets_no_timer_for_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, count = asyncio.get_running_loop(), 0
    opened = Opened(Reading(), Watch(Patience(first=5, silence=5, total=60)))
    before = loop.call_at

    def call_at(*given: Any, **named: Any) -> asyncio.TimerHandle:
        nonlocal count
        count += 1
        return before(*given, **named)

    monkeypatch.setattr(loop, "call_at", call_at)
    for _ in range(100):
        assert await opened.read() == EVENT
    await opened.close()
    assert count == 2  # the first event sets it anew


class Reading(Speaker):
    """One that is never done."""

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return EVENT


def test_it_has_more_patience_with_research(settings: Settings) -> None:
    usual, research = patience_for("gpt56_terra"), patience_for(RESEARCH)

    assert usual == Patience(90, 45, 900)
    assert research.silence > 60  # a pause for questions that nobody answers (perplexity-web §8)
    assert research.total > usual.total
