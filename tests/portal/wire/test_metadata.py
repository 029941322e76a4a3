from __future__ import annotations

from typing import Any

import pytest

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from portal.wire.metadata import read_metadata


@pytest.mark.parametrize(
    "pairs", [{}, {"k" * 64: "v" * 512}, {str(number): "" for number in range(16)}, {"größe 🌊": "ä"}]
)
def test_it_reads_pairs_up_to_their_limits(pairs: dict[str, str]) -> None:
    assert read_metadata(Fields({"metadata": pairs})) == pairs


def test_it_reads_none_where_none_were_sent() -> None:
    assert read_metadata(Fields({})) == read_metadata(Fields({"metadata": None})) == {}


@pytest.mark.parametrize(
    ("pairs", "param"),
    [
        ([], "metadata"),
        ({str(number): "" for number in range(17)}, "metadata"),
        ({"": "v"}, "metadata"),
        ({"k" * 65: "v"}, "metadata"),
        ({"a\0": "v"}, "metadata"),
        ({"key": "v" * 513}, "metadata.key"),
        ({"key": None}, "metadata.key"),
        ({"a key!": 1}, "metadata"),
    ],
)
def test_it_names_the_pair_that_is_wrong(pairs: Any, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_metadata(Fields({"metadata": pairs}))
    assert caught.value.param == param
