"""Nothing that a client sends makes the sandbox fall over: a 500 would be a fault that nobody asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.agent_request import read_ask
from sandbox.app import build_app
from sandbox.sonar_request import read_chat
from sandbox.world import Refused
from tests.examples import examples
from tests.sandbox.visitor import HEADERS, Clock

LEAVES = st.none() | st.booleans() | st.integers(-3, 9**9) | st.floats(allow_nan=False) | st.text(max_size=9)
WORDS = st.sampled_from(
    re.findall(
        r"\w+",
        """type input preset effort model models tools filters role content user text metadata reasoning
        web_search message messages response_format json_schema max_steps stream sonar medium profile
        search_recency_filter temperature tool_choice previous_response_id max_output_tokens""",
    )
)
# Making the data is slow on a busy machine, which is no failing of ours.
PATIENT = examples(300)
JSON = st.recursive(
    LEAVES | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


def status(read: Callable[[object], object], request: object) -> int:
    try:
        read(request)
    except Refused as refused:
        return refused.response.status_code
    return 200


@given(st.dictionaries(WORDS, JSON, max_size=6))
@PATIENT
def test_it_either_reads_or_refuses_any_agent_body(body: dict[str, Any]) -> None:
    bare = {"input": "Why?", "preset": "low"}
    for request in (body, {**bare, **body}, {**bare, "tools": [body]}, {**bare, "input": [body]}):
        assert status(read_ask, request) in (200, 400)


@given(st.dictionaries(WORDS, JSON, max_size=6))
@PATIENT
def test_it_either_reads_or_refuses_any_sonar_body(body: dict[str, Any]) -> None:
    for request in (body, {"model": "sonar", "messages": [{"role": "user", "content": body}], **body}):
        assert status(read_chat, request) in (200, 400, 422)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@given(question=st.text(max_size=200), key=st.none() | st.text(max_size=40))
@examples(60)
def test_it_carries_any_text_through_to_the_report(folder: Path, question: str, key: str | None) -> None:
    clock = Clock()
    app = build_app(folder / "s.sqlite3", seconds=1, clock=clock)

    async def journey() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=HEADERS) as client:
            await client.post("/_sandbox/reset", json={})
            body = {"model": "sonar", "messages": [{"role": "user", "content": question}]}
            job = await client.post("/v1/async/sonar", json={"request": body, "idempotency_key": key})
            assert job.status_code == 200, job.text
            ask = {"input": f"?{question}", "preset": "low", "background": True}
            run = await client.post("/v1/agent", json=ask)
            assert run.status_code == 200, run.text
            clock.forward(2)
            done = await client.get(f"/v1/async/sonar/{job.json()['id']}")
            assert done.json()["status"] == "COMPLETED"
            done = await client.get(f"/v1/agent/{run.json()['id']}")
            assert done.json()["status"] == "completed"
            assert (await client.get("/_sandbox/jobs")).status_code == 200

    asyncio.run(journey())
    app.close()
