"""What looks at pages in a browser sees what is wrong, also where most has been seen before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.eyes import colour_violations, violations

PAGE = """
<!doctype html><html lang="en"><title>A page</title>
<style>
  :root { color-scheme: light dark; }
  body { color: light-dark(black, white); background: light-dark(white, black); }
  %s
</style>
<main><h1>A heading</h1><p>Some text.</p><p id="other">Other text.</p></main>
"""
GREY = "light-dark(black, #444)"


@pytest.fixture(scope="module")
def opened(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page()
    yield page
    page.close()


@pytest.fixture
def page(opened: Page) -> Page:
    """One that has been looked at, and is fine in both schemes."""
    opened.emulate_media(color_scheme="light")
    opened.set_content(PAGE % "")
    assert violations(opened) == []
    opened.emulate_media(color_scheme="dark")
    assert colour_violations(opened) == []
    opened.emulate_media(color_scheme="light")
    return opened


@pytest.mark.parametrize(
    "rule", ["#other { color: #bbb }", "#other { background: #222 }", "h1 { color: #bbb }"]
)
def test_it_sees_each_time_that_some_text_can_hardly_be_read(page: Page, rule: str) -> None:
    for _ in range(2):
        page.set_content(PAGE % rule)
        (fault,) = violations(page)
        assert fault.startswith("color-contrast: <")


def test_it_sees_what_can_hardly_be_read_in_the_dark_alone(page: Page) -> None:
    page.set_content(PAGE % f"p {{ transition: color 9s; color: {GREY} }}")
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    (fault,) = colour_violations(page)
    assert fault.startswith("color-contrast: <p")


def test_it_sees_that_what_stands_around_is_drawn_differently(page: Page) -> None:
    page.set_content(PAGE % "main { background: #222 }")
    assert [fault.partition(">")[0] for fault in violations(page)] == [
        "color-contrast: <h1",
        "color-contrast: <p",
    ]


def test_it_sees_a_fault_that_is_none_of_the_colours(page: Page) -> None:
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    (fault,) = violations(page)
    assert fault == "button-name: <button></button>"
