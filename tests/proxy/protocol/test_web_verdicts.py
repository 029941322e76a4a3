"""What an answer is worth by itself, before it is cleaned: deep research looks at it so."""

from __future__ import annotations

import pytest

from portal.wire.sse import SseDecoder, SseRecord
from proxy.protocol.delta import Done, Fault, FaultKind
from proxy.protocol.web_events import WebAnswer
from proxy.protocol.web_sources import Place, SourceList
from tests.proxy.protocol.samples import load


def verdict(sample: str) -> Done | Fault:
    answer = WebAnswer("pplx_pro")
    for record in SseDecoder().feed(load(sample).stream):
        answer.read(record)
    return answer.verdict()


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        ("empty", FaultKind.EMPTY),
        ("blank", FaultKind.EMPTY),
        ("taken-back", FaultKind.REWRITTEN),
        ("diff-unfit", FaultKind.BROKEN),
        ("stopped", FaultKind.STOPPED),
    ],
)
def test_it_takes_no_answer_for_one_that_says_nothing(sample: str, kind: FaultKind) -> None:
    assert verdict(sample) == Fault(kind)


def test_it_takes_no_notice_of_events_that_it_does_not_know() -> None:
    answer = WebAnswer("pplx_pro")

    assert answer.read(SseRecord("ping", b"{broken")) == []
    assert not answer.over


def test_it_counts_by_the_last_list() -> None:
    """Early lists are in another order (perplexity-web §7)."""
    listed = SourceList()
    pages = [{"url": f"https://{letter}.example"} for letter in "abc"]
    for items in (pages, pages[::-1], []):
        list(listed.replace(Place.BLOCK, list(items)))

    assert [source.url[8] for source in listed.sources] == ["c", "b", "a"]


def test_it_takes_whatever_was_said_for_the_answer() -> None:
    assert isinstance(verdict("auto"), Done)
