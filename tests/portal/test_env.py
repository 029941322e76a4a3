"""Environment variables: what is read, and the one line that each wrong one gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from portal.env import Env, EnvError

WRONG: list[tuple[str, Callable[[Env], object], str]] = [
    ("sometimes", lambda env: env.flag("IT"), "must be true or false, not 'sometimes'"),
    ("1.5", lambda env: env.integer("IT", 1), "must be a whole number, not '1.5'"),
    ("0", lambda env: env.integer("IT", 1, least=1, most=9), "must be from 1 to 9, not 0"),
    ("-1", lambda env: env.integer("IT", 1, least=0), "must be at least 0, not -1"),
    ("nan", lambda env: env.number("IT", 1, least=0, most=9), "must be from 0 to 9, not nan"),
    ("inf", lambda env: env.number("IT", 1, least=0, most=9), "must be from 0 to 9, not inf"),
    ("maybe", lambda env: env.choice("IT", ("yes", "no"), "no"), "must be one of yes, no, not 'maybe'"),
    ("/nowhere/prompts", lambda env: env.text_or_path("IT"), "there is no file /nowhere/prompts"),
    ("prompts.md", lambda env: env.text_or_path("IT"), "there is no file prompts.md"),
    (
        "example.org",
        lambda env: env.url("IT"),
        "must be a URL that starts with http:// or https:// and names a host",
    ),
    (
        "https://",
        lambda env: env.url("IT"),
        "must be a URL that starts with http:// or https:// and names a host",
    ),
    ("http://h:99999", lambda env: env.url("IT"), "is not a URL"),
    ("Mars/Olympus", lambda env: env.timezone("IT", "UTC"), "there is no time zone called 'Mars/Olympus'"),
    ("../passwd", lambda env: env.timezone("IT", "UTC"), "there is no time zone called '../passwd'"),
    (
        "http://h/path",
        lambda env: env.origin("IT"),
        "must be scheme://host or scheme://host:port, with nothing more",
    ),
    (
        "http://a,b",
        lambda env: env.origins("IT"),
        "must be a URL that starts with http:// or https:// and names a host",
    ),
    ("10.0.0.0/8,proxy", lambda env: env.networks("IT"), "'proxy' is neither an address nor a network"),
]


@pytest.mark.parametrize(("value", "read", "complaint"), WRONG)
def test_it_names_the_variable_that_is_wrong(
    value: str, read: Callable[[Env], object], complaint: str
) -> None:
    with pytest.raises(EnvError) as error:
        read(Env({"IT": value}))

    assert str(error.value) == f"IT: {complaint}"


def test_it_shows_no_password_of_a_wrong_url() -> None:
    with pytest.raises(EnvError) as error:
        Env({"DATABASE_URL": "mysql://me:hunter22@host/name"}).secret_url(
            "DATABASE_URL", schemes=("postgresql",)
        )

    assert "hunter22" not in str(error.value)


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_it_takes_an_empty_value_for_a_missing_one(blank: str) -> None:
    assert Env({"IT": blank}).text("IT", "default") == "default"
    assert Env({"IT": blank}).integer("IT", 7) == 7


def test_it_reads_a_secret_from_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("pplx-secret\n")

    assert Env({"KEY_FILE": str(tmp_path / "key")}).secret("KEY") == "pplx-secret"


def test_it_prefers_the_variable_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of the file")

    assert (
        Env({"KEY": "of the variable", "KEY_FILE": str(tmp_path / "key")}).secret("KEY") == "of the variable"
    )


def test_it_names_the_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match=r"^KEY_FILE: cannot read .*: No such file or directory$"):
        Env({"KEY_FILE": str(tmp_path / "missing")}).secret("KEY")


def test_it_reads_a_list_without_its_blanks() -> None:
    assert Env({"IT": " a, ,b ,"}).words("IT", ("c",)) == ("a", "b")


def test_it_gives_a_url_without_its_trailing_slash() -> None:
    assert Env({"IT": "https://example.org/"}).origin("IT") == "https://example.org"


@pytest.mark.parametrize("given", ["INFO", "info", "Info"])
def test_it_takes_a_choice_in_capitals_or_not(given: str) -> None:
    assert Env({"IT": given}).choice("IT", ("DEBUG", "INFO"), "DEBUG") == "INFO"


@pytest.mark.parametrize("text", ["Be brief.", "/slash is a word\nof this text", "Yes/no answers only.", ""])
def test_it_takes_a_text_for_what_it_is(text: str) -> None:
    assert Env({"IT": text}).text_or_path("IT") == text


def test_it_takes_the_path_of_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("Be brief.")
    path = str(tmp_path / "prompts")
    assert Env({"IT": path}).text_or_path("IT") == path
