"""Any markers together, in any shape: the records stay what they claim to be."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.scenarios import MARKERS, PREFIXES, read_script
from sandbox.web.answers import pieces
from sandbox.web.ask_request import read_ask
from sandbox.web.content import content_of
from sandbox.web.faults import WEB_FAULTS
from sandbox.web.frames import Frames
from sandbox.web.framing import writer
from sandbox.web.patches import difference
from sandbox.web.plot import BROKEN, plot
from sandbox.web.store import Entry
from tests.examples import examples
from tests.sandbox.web.listener import body, final_text, placed, records

FAULTS = {prefix + fault for prefix in PREFIXES.values() for fault in WEB_FAULTS}
BEHAVIOURS = sorted(name for name, marker in MARKERS.items() if "web" in marker.apis and name not in FAULTS)
VALUES = {"shape": "=patches", "say": "=aGk", "text-form": "=plain", "framing": "=odd", "bridge": "=call",
          "report-in": "=both", "processing": "=works", "upload": "=error", "retry-after": "=3"}  # fmt: skip
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"supported_block_use_cases": ["diff_blocks", "unified_assets"]},
    {"supported_block_use_cases": ["workflow_steps"]},
    {"supported_block_use_cases": ["workflow_steps", "diff_blocks"], "send_back_text_in_streaming_api": True},
    {"use_schematized_api": False},
)
PREFERENCES = ("pplx_pro", "gpt55", "kimik3", "pplx_alpha")
ENTRY = "00000000-0000-4000-8000-000000000000"


def marked(names: list[str]) -> str:
    usual = {name: "" if MARKERS[name].default is not None else "=1" for name in names}
    return "Why is the sky blue? " + "".join(
        f"[sandbox:{name}{VALUES.get(name, usual[name])}]" for name in names
    )


def frames_of(question: str, preference: str, shape: dict[str, Any]) -> Frames:
    ask = read_ask(body(question, model_preference=preference, **shape), None)
    entry = Entry(1, ENTRY, ENTRY, "sandbox-max", question, "", preference, "", 0.0, 1.0)
    content = content_of(ask, preference, "", ())
    return Frames(entry, ask, content, read_script(question, "web"))


def spoilt(data: str) -> bool:
    return data.startswith("[") or data == BROKEN.decode()


@given(
    st.lists(st.sampled_from(BEHAVIOURS), max_size=5), st.sampled_from(PREFERENCES), st.sampled_from(SHAPES)
)
@examples(150)
def test_it_survives_any_mixture_of_markers(names: list[str], preference: str, shape: dict[str, Any]) -> None:
    frames = frames_of(marked(names), preference, shape)
    shots = list(plot(frames))
    assert [shot.at for shot in shots] == sorted(shot.at for shot in shots)
    written = writer(frames.script)
    text = b"".join(written(number, "message", shot.record()) for number, shot in enumerate(shots)).decode()
    found = [record.data for record in records(text) if record.event == "message"]
    assert len(found) == len(shots)
    documents: dict[tuple[str, str], Any] = {}
    for data in found:
        if spoilt(data):
            break  # what comes after it no longer fits
        for block in json.loads(data).get("blocks", ()):
            if "diff_block" in block:
                key = (block["intended_usage"], block["diff_block"]["field"])
                documents[key] = jsonpatch.apply_patch(documents.get(key), block["diff_block"]["patches"])


@given(st.text(max_size=400), st.integers(min_value=0, max_value=50))
def test_it_cuts_text_into_pieces_that_add_up(text: str, number: int) -> None:
    found = pieces(text, number)
    assert "".join(found) == text
    assert all(found)
    assert len(found) <= max(number, 60)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)


@given(JSON, JSON)
def test_it_writes_patches_that_lead_from_one_document_to_another(old: Any, new: Any) -> None:
    assert jsonpatch.apply_patch(old, list(difference(old, new))) == new


@pytest.mark.parametrize("text", ["", "a", "日本の港 " * 400, "x" * 100_000])
@pytest.mark.parametrize("preference", PREFERENCES[:3])
def test_it_says_texts_of_any_length(text: str, preference: str) -> None:
    question = f"{text} " if text else "Why?"
    frames = frames_of(question, preference, {})
    found = [json.loads(shot.record()) for shot in plot(frames)]
    assert placed(found[:-1]) == final_text(found[-1]) != ""
