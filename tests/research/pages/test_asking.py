from __future__ import annotations

from dataclasses import replace

import pytest

from portal.wire.errors import BadRequest
from research.models.runs import Run
from research.pages.asking import Asking, asking_of, errors_of, new_asking, read_asking, request_of

ASKED = Asking(question="Why are there tides?", form="f1")


def test_it_reads_every_field_into_the_request_of_all_doors() -> None:
    request = request_of(
        Asking(
            question="  Why?  ",
            preset="30m",
            instructions="Briefly.",
            mode="academic",
            domains="nature.com, https://WHO.int/;arxiv.org",
            after="2026-01-31",
            before="2026-11-30",
            language="de",
            form="f1",
        )
    )

    assert request.question == "Why?"
    assert request.preset == "30m"
    options = request.options
    assert (options.instructions, options.search_mode, options.language) == ("Briefly.", "academic", "de")
    assert options.domains == ("nature.com", "who.int", "arxiv.org")
    assert (options.after_date, options.before_date) == ("01/31/2026", "11/30/2026")


def test_it_gives_the_same_form_the_same_key_and_another_one_another() -> None:
    key = request_of(ASKED).idempotency_key

    assert key == request_of(ASKED).idempotency_key
    assert key != request_of(replace(ASKED, form="f2")).idempotency_key
    assert key != request_of(replace(ASKED, question="Why not?")).idempotency_key


def test_it_names_each_showing_of_the_form_anew() -> None:
    assert new_asking().form != new_asking().form


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"question": "   "}, "question", "required"),
        ({"mode": "darkweb"}, "mode", "Must be one of"),
        ({"recency": "decade"}, "recency", "Must be one of"),
        ({"domains": "a@b.org"}, "domains", "domain"),
        ({"after": "31.1.2026"}, "after", "date"),
        ({"after": "2026-02-31"}, "after", "date"),
        ({"before": "yesterday"}, "before", "date"),
        ({"language": "much german"}, "language", "language code"),
        ({"previous": "resp_nothing"}, "form", "No response"),
        ({"question": "nul\0"}, "question", "NUL"),
    ],
)
def test_it_tells_errors_beside_the_field_they_are_about(
    fields: dict[str, str], field: str, message: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        request_of(replace(ASKED, **fields))

    errors = errors_of(caught.value)
    assert errors.keys() == {field}
    assert message in errors[field]
    assert not errors[field].startswith(("search_", "Search_"))


def test_it_reads_what_was_typed_and_nothing_else() -> None:
    asking = read_asking({"question": "Why?", "csrfmiddlewaretoken": "x", "unknown": "y"})

    assert asking == Asking(question="Why?")
    assert not asking.has_options
    assert replace(asking, domains="who.int").has_options


def test_it_fills_the_form_in_as_it_was_for_an_earlier_run() -> None:
    options = {
        "instructions": None,
        "search_mode": "web",
        "domains": ["a.org", "b.org"],
        "after_date": "01/31/2026",
        "language": "fr",
    }

    asking = asking_of(Run(question="Why?", preset="5m", options=options))

    assert (asking.question, asking.preset, asking.mode, asking.language) == ("Why?", "5m", "web", "fr")
    assert (asking.domains, asking.after, asking.before) == ("a.org, b.org", "2026-01-31", "")
    assert asking.form
