"""What is masked, and that looking for a hint first changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire import redact as module
from portal.wire.redact import redact

SECRETS = [
    ("sonde_abc123def4_" + "s" * 43, "sonde_abc123def4_***"),
    ("the key pplx-abcdefgh1 of it", "the key pplx-*** of it"),
    ("sk_live_abcdefgh", "sk-***"),
    ("whsec_abcdefgh", "whsec-***"),
    ("Authorization: BEARER abcdef.ghi", "Authorization: *** ***"),
    ("told bAsIc dXNlcjpwYXNz", "told bAsIc ***"),
    ("__Secure-next-auth.session-token.0=eyJhbGciOi; x=1", "__Secure-next-auth.session-token.0=***; x=1"),
    ("NEXT-AUTH.csrf-token : abc", "NEXT-AUTH.csrf-token=***"),
    ('{"X-Api-Key": "abcdefgh"}', '{"X-Api-Key": "***"}'),
    ("apikey=abcdefgh", "apikey=***"),
    ("api_key = abcdefgh", "api_key = ***"),
    ("Cookie: abcdef", "Cookie: ***"),
    ("postgresql://user:secret@db/name", "postgresql://***@db/name"),
]
PIECES = st.sampled_from([part for text, _ in SECRETS for part in (text, text.upper(), text[:9], text[4:])])


@pytest.mark.parametrize(("text", "masked"), SECRETS)
def test_it_masks_what_looks_like_a_credential(text: str, masked: str) -> None:
    assert redact(text) == masked


@pytest.mark.parametrize("text", ["", "chat:0f6c", "The sky is blue.", "https://example.org/a?b=c", "skill"])
def test_it_leaves_other_text_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(st.lists(PIECES | st.text(max_size=20), max_size=4).map(" ".join))
def test_a_text_without_a_hint_has_nothing_that_a_rule_finds(text: str) -> None:
    by_rules = text
    for pattern, replacement in module._RULES:
        by_rules = pattern.sub(replacement, by_rules)
    assert redact(text) == by_rules
