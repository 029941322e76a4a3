"""Whatever arrives at a door, the answer is an envelope and never our fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given

from research.models.runs import Run
from tests.examples import examples
from tests.research.api.callers import Caller, caller
from tests.research.protocol.test_agent_any_json import bodies, sparse, values

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def who() -> Caller:
    return caller(credits=1_000_000)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies | sparse | values)
def test_it_answers_any_json_with_a_run_or_an_envelope(who: Caller, body: Any) -> None:
    assume(not (isinstance(body, dict) and body.get("stream") is True))  # nobody works at its runs
    before = Run.objects.count()
    response = who.client.post("/v1/agent", content=json.dumps(body).encode())
    if response.status_code == 200:
        assert response.json()["object"] == "response"
        assert Run.objects.count() == before + 1
    else:
        assert response.status_code in (400, 422)
        assert list(response.json()["error"]) == ["code", "message", "type", "param"]
        assert Run.objects.count() == before


HOSTILE = [
    b'{"input": "a", "metadata": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    b'{"input": ' + b"[" * 100_000,
    b'{"input": "\\ud83d"}',
    b'{"input": "a\\u0000b"}',
    b'{"input": "a", "preset": "\\ud83d"}',
    b'{"input": "a", "metadata": {"\\ud83d": "x"}}',
    b'{"input": "a", "idempotency_key": "\\u0000"}',
    b'{"input": "a", "max_output_tokens": ' + b"9" * 6000 + b"}",
    b'{"input": "a", "temperature": 1e400}',
    b'{"input": "a", "temperature": NaN}',
    b'{"input": "a", "input": "b"}',
    b'{"input": "' + b"x" * 1_100_000 + b'"}',
    b'\xff{"input": "a"}',
    '{"input": "a"}'.encode("utf-16"),
]


def test_it_refuses_hostile_bodies_and_charges_nothing(who: Caller) -> None:
    for content in HOSTILE:
        response = who.client.post("/v1/agent", content=content)
        assert response.status_code in (400, 413), content[:80]
        assert list(response.json()["error"]) == ["code", "message", "type", "param"]
    assert not Run.objects.exists()


NESTED = [('{"a": ', "}"), ("[", "]"), ('{"content": [', "]}"), ('[{"text": ', "}]"), ('{"not": ', "}")]
MEMBERS = (
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "metadata",
    "reasoning",
    "include",
    "other",
)


@pytest.mark.parametrize("path", ["/v1/agent", "/v1/responses"])
@pytest.mark.parametrize("member", MEMBERS)
def test_it_walks_through_whatever_it_reads(who: Caller, path: str, member: str) -> None:
    """Python follows about a thousand calls, and some read a level of JSON in three."""
    for opened, closed in NESTED:
        for depth in (250, 800):
            times = depth // (opened.count("{") + opened.count("["))
            deep = f"{opened * times}{{}}{closed * times}"
            said = "" if member == "input" else '"input": "a", '
            body = f'{{"model": "no-model", "preset": "no-preset", {said}"{member}": {deep}}}'
            for sent in (body, body.replace('"preset": "no-preset", ', "")):
                response = who.client.post(path, content=sent.encode())
                assert response.status_code in (200, 400, 403), (sent[:120], depth, response.text)
