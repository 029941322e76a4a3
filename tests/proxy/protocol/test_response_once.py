"""What makes two Responses requests the same under one idempotency key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from proxy.protocol.response_once import WITHOUT_EFFECT, Once, fingerprint, read_once

BODY: dict[str, Any] = {"model": "gpt", "input": [{"role": "user", "content": "Why?"}], "background": True}
NAMES = st.sampled_from(["input", "instructions", "model", "store", "text", "tools", "truncation"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)
)
BODIES = st.dictionaries(NAMES, VALUES)


@given(BODIES, BODIES)
def test_the_print_is_that_of_what_has_an_effect_and_of_nothing_else(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    def effective(body: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in body.items() if value is not None}

    assert (fingerprint(Fields(one)) == fingerprint(Fields(other))) == (effective(one) == effective(other))
    backwards = dict(reversed([*one.items(), *((name, "x") for name in WITHOUT_EFFECT)]))
    assert fingerprint(Fields(backwards)) == fingerprint(Fields(one))


@pytest.mark.parametrize(
    ("body", "headers", "key"),
    [
        ({}, {}, None),
        ({"store": False}, {}, None),
        ({}, {"idempotency-key": "k"}, "k"),
        ({"idempotency_key": "k", "store": True}, {"idempotency-key": "k"}, "k"),
    ],
)
def test_it_reads_a_key_from_header_and_body(
    body: dict[str, Any], headers: dict[str, str], key: str | None
) -> None:
    found = read_once(Fields(BODY | body), headers)

    assert found == (Once(key, fingerprint(Fields(BODY | body))) if key else None)


@pytest.mark.parametrize(
    ("body", "header"),
    [
        ({}, ""),
        ({}, " "),
        ({}, "a\nb"),
        ({}, "k" * 201),
        ({"idempotency_key": "k"}, "l"),
        ({"idempotency_key": 7}, "k"),
        ({"store": False}, "k"),
    ],
)
def test_it_names_the_key_that_is_none_or_cannot_be_kept(body: dict[str, Any], header: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_once(Fields(BODY | body), {"idempotency-key": header})

    assert refused.value.param == "idempotency_key"
