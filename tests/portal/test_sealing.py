"""Secrets at rest: who may open what, and where."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.services.sealing import KEY_BYTES, KeyRing, SealError, new_key, parse_ring

# The same in every process: the names of the tests below hold them, and xdist compares those.
OLD = "old:" + base64.b64encode(bytes(range(KEY_BYTES))).decode()
NEW = "new:" + base64.b64encode(bytes(reversed(range(KEY_BYTES)))).decode()


def ring(*keys: str) -> KeyRing:
    return parse_ring(",".join(keys))


@given(st.text(), st.text(min_size=1))
def test_it_opens_what_it_sealed_in_the_same_place(text: str, place: str) -> None:
    keys = ring(OLD)

    assert keys.open(keys.seal(text, place), place) == text


@given(st.binary(min_size=1, max_size=3), st.integers(min_value=0))
def test_it_refuses_a_sealed_text_that_was_touched(noise: bytes, where: int) -> None:
    keys = ring(OLD)
    key_id, _, body = keys.seal("secret", "t:f:1").partition(":")
    raw = bytearray(base64.b64decode(body))
    place = where % len(raw)
    raw[place] ^= noise[0] or 1

    with pytest.raises(SealError):
        keys.open(f"{key_id}:{base64.b64encode(raw).decode()}", "t:f:1")


def test_it_refuses_a_sealed_text_that_was_moved_to_another_row() -> None:
    keys = ring(OLD)

    with pytest.raises(SealError, match="t:f:2 does not open"):
        keys.open(keys.seal("secret", "t:f:1"), "t:f:2")


def test_it_never_seals_one_text_twice_alike() -> None:
    keys = ring(OLD)

    assert keys.seal("secret", "t:f:1") != keys.seal("secret", "t:f:1")


def test_it_seals_with_the_first_key_and_opens_with_all() -> None:
    sealed = ring(OLD).seal("secret", "t:f:1")
    both = ring(NEW, OLD)

    assert both.open(sealed, "t:f:1") == "secret"
    assert both.seal("secret", "t:f:1").startswith("new:")


def test_it_names_the_key_that_it_lacks() -> None:
    sealed = ring(OLD).seal("secret", "t:f:1")

    with pytest.raises(
        SealError, match=r"^t:f:1 needs key 'old', which SONDE_ENCRYPTION_KEYS does not hold$"
    ):
        ring(NEW).open(sealed, "t:f:1")


def test_it_tells_another_key_of_the_same_name() -> None:
    sealed = ring(OLD).seal("secret", "t:f:1")

    with pytest.raises(SealError, match="key 'old' is not the one that sealed it"):
        ring(new_key().replace("k1:", "old:")).open(sealed, "t:f:1")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no key"),
        (",", "holds no key"),
        ("just-text", "must be id:base64 pairs"),
        (f"A B:{OLD.partition(':')[2]}", "must be id:base64 pairs"),
        ("k1:not base64!", "the key 'k1' is not base64"),
        ("k1:" + base64.b64encode(b"short").decode(), f"the key 'k1' has 5 bytes, not {KEY_BYTES}"),
        (f"{OLD},{OLD}", "holds two keys of one id"),
    ],
)
def test_it_says_in_one_line_why_a_ring_cannot_be_read(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as error:
        parse_ring(text)

    assert "\n" not in str(error.value)


def test_it_reads_keys_in_the_alphabet_of_urls_too() -> None:
    key_id, _, body = OLD.partition(":")

    sealed = ring(OLD).seal("secret", "t:f:1")
    assert ring(f"{key_id}:{body.replace('+', '-').replace('/', '_')}").open(sealed, "t:f:1") == "secret"
