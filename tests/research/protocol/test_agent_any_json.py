"""Whatever JSON arrives, the answer is a request or one clear error."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from portal.wire.fields import fields_of
from research.protocol.agent import UNHONOURED, parse_run_request
from research.protocol.route import engine_of

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = (
    "input",
    "preset",
    "effort",
    "model",
    "instructions",
    "system_prompt",
    "idempotency_key",
    "background",
    "stream",
    "store",
    "metadata",
    "search_mode",
    "search_recency_filter",
    "search_domain_filter",
    "search_after_date_filter",
    "search_before_date_filter",
    "reasoning",
    "reasoning_effort",
    "language_preference",
    "tools",
    "previous_response_id",
    *UNHONOURED,
)
items = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "system"]) | values,
            "content": values,
            "type": st.just("message") | values,
        },
    ),
    max_size=3,
)
tools = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("web_search") | values},
        optional={"filters": st.dictionaries(st.sampled_from(NAMES), values, max_size=3) | values},
    ),
    max_size=3,
)
bodies = st.fixed_dictionaries(
    {"input": st.text(st.characters(), max_size=30) | items | values},
    optional={**{name: values for name in NAMES if name != "input"}, "tools": tools | values},
)
sparse = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), values, max_size=5)


@given(
    bodies | sparse | values,
    st.dictionaries(st.sampled_from(["idempotency-key", "x-stainless-retry-count"]), st.text()),
)
def test_it_reads_or_refuses_any_json(body: Any, headers: dict[str, str]) -> None:
    try:
        fields = fields_of(body)
        request = parse_run_request(fields, headers)
        assert engine_of(fields) in ("research", "chat")
    except BadRequest as problem:
        problem.encoded()
        return
    request.question.encode()
    assert 0 < len(request.question) <= 100_000
    assert "\0" not in request.question + (request.options.instructions or "")
