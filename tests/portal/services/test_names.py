"""Names that would lie, break a line, or move a cursor."""

from __future__ import annotations

import pytest

from portal.services.errors import Invalid
from portal.services.keys import checked_name as checked_key_name
from portal.services.names import is_fit
from portal.services.users import checked_email, checked_name, find_or_make_team

UNFIT = ["\x00", "\x07", "\x1b[2J", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800"]


@pytest.mark.parametrize(
    "name", ["Ada", "Ada Lovelace", "Zoë 🦊", "می\u200cخواهم", "李", 'O\'Neil, "Bo" <b>']
)
def test_it_takes_the_names_of_people(name: str) -> None:
    assert is_fit(name)
    assert checked_name(name) == checked_key_name(name) == name


@pytest.mark.parametrize("character", UNFIT)
def test_it_takes_no_name_that_does_something(character: str) -> None:
    for check in (checked_name, checked_key_name, find_or_make_team, checked_email):
        with pytest.raises(Invalid):
            check(f"a{character}b")


def test_it_takes_no_email_with_more_in_it_than_letters() -> None:
    with pytest.raises(Invalid):
        checked_email('"\x1b"@example.org')


@pytest.mark.parametrize("break_", ["\n", "\r\n", "\t"])
def test_it_writes_names_in_one_line(break_: str) -> None:
    assert checked_name(f"Ada{break_}Lovelace") == "Ada Lovelace"
    with pytest.raises(Invalid):
        checked_key_name(f"a{break_}b")
