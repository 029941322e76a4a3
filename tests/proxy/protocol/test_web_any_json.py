from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.sse import SseRecord
from proxy.protocol.delta import Done, Fault
from proxy.protocol.finishing import Finisher
from proxy.protocol.web_events import WebAnswer
from proxy.protocol.web_frame import Frame
from tests.examples import examples
from tests.proxy.protocol.samples import SAMPLES, last_of, read

NAMES = [
    "ask_text",
    "ask_text_0_markdown",
    "web_results",
    "plan",
    "pro_search_steps",
    "workflow_root",
    "unified_assets",
    "sources_answer_mode",
    "reasoning_plan_block",
]
FIELDS = [
    "markdown_block",
    "plan_block",
    "web_result_block",
    "workflow_block",
    "unified_assets_block",
    "sources_mode_block",
    "reasoning_plan_block",
]
MEMBERS = [
    "progress",
    "chunks",
    "chunk_starting_offset",
    "answer",
    "goals",
    "steps",
    "items",
    "payload",
    "text_payload",
    "text",
    "variant",
    "web_results",
    "rows",
    "url",
    "name",
    "description",
    "step_type",
    "content",
    "queries",
    "urls",
    "assets",
    "research_report",
    "source_content",
    "pct_complete",
    "eta_seconds_remaining",
    "sources_payload",
    "queries_payload",
    "sources",
    "type",
]
WORDS = [
    "DONE",
    "IN_PROGRESS",
    "SEARCH_WEB",
    "FINAL",
    "RESEARCH_ANSWER",
    "READ_RESULTS",
    "",
    "a[1]",
    "{",
    "é",
]
PATHS = [
    "",
    "/chunks/0",
    "/chunks/1",
    "/chunks/-",
    "/steps/0/items/0",
    "/web_results/0",
    "/goals/1",
    "x",
    "/",
]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=8,
)
patches = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "replace", "remove", "copy", "move", 1]), "path": st.sampled_from(PATHS)},
    optional={"value": values, "from": st.sampled_from(PATHS)},
)
diffs = st.fixed_dictionaries(
    {"field": st.sampled_from(FIELDS) | values, "patches": st.lists(patches) | values}
)
blocks = st.fixed_dictionaries(
    {"intended_usage": st.sampled_from(NAMES) | values},
    optional={"diff_block": diffs | values} | dict.fromkeys(FIELDS, values),
)
frames = st.fixed_dictionaries(
    {},
    optional={
        **{name: values for name in Frame.__struct_fields__ if name != "blocks"},
        "text": st.builds(json.dumps, values) | values,
        "blocks": st.lists(blocks, max_size=4) | values,
    },
)


def play(messages: list[Any]) -> list[Any]:
    answer, finisher = WebAnswer("gpt55"), Finisher()
    deltas = []
    for message in messages:
        data = json.dumps(message).encode()
        deltas += finisher.pass_on(answer.read(SseRecord("message", data)))
    deltas += finisher.pass_on(answer.read(SseRecord("end_of_stream", b"{}")))
    return deltas + finisher.pass_on(answer.close())


@pytest.mark.slow
@examples(100)
@given(st.lists(frames, max_size=5))
def test_it_ends_in_a_verdict_whatever_the_frames_hold(messages: list[Any]) -> None:
    deltas = play(messages)

    assert isinstance(deltas[-1], Done | Fault)
    assert sum(isinstance(delta, Done | Fault) for delta in deltas) == 1


@examples(200)
@given(values)
def test_it_reads_any_json_as_a_message(message: Any) -> None:
    assert isinstance(play([message])[-1], Done | Fault)


@examples(300)
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_it_reads_any_bytes(pieces: list[bytes]) -> None:
    assert isinstance(last_of(read(pieces, "gpt55")), Fault)


@examples(300)
@given(st.sampled_from(SAMPLES), st.randoms(use_true_random=False))
def test_it_survives_damage_to_real_streams(sample: Any, chance: random.Random) -> None:
    stream = bytearray(sample.stream)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(stream))
        match chance.randint(0, 2):
            case 0:
                stream[at] = chance.randrange(256)
            case 1:
                del stream[at : at + chance.randint(1, 40)]
            case _:
                stream[at:at] = bytes(chance.choice(b'[]{}",:\r\n\\u0') for _ in range(chance.randint(1, 6)))

    assert isinstance(last_of(read([bytes(stream)], sample.requested)), Done | Fault)
