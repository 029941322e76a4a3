"""What a start says of settings that are not right, and which it refuses."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.running import preparation

pytestmark = pytest.mark.django_db


def test_it_has_nothing_to_say_of_the_usual_settings() -> None:
    assert list(preparation.complaints()) == []


def test_it_says_that_nobody_is_told_at_a_topic_that_ntfy_does_not_take(settings: Settings) -> None:
    settings.NTFY_TOPIC = "two words"
    (line,) = preparation.complaints()
    assert line.startswith("NTFY_TOPIC must be 1 to 64 letters")


def test_it_says_that_the_default_model_does_not_exist(settings: Settings) -> None:
    settings.DEFAULT_MODEL = "gpt-0"
    assert list(preparation.complaints()) == [
        "DEFAULT_MODEL: there is no model called gpt-0: chats that name none are refused"
    ]


@pytest.mark.parametrize("upstream", ["sandbox", "live"])
def test_it_refuses_to_start_as_a_browser_that_curl_does_not_know(settings: Settings, upstream: str) -> None:
    settings.SONDE_UPSTREAM, settings.PPLX_IMPERSONATE = upstream, "netscape"
    with pytest.raises(preparation.NotReady, match="PPLX_IMPERSONATE: curl knows no browser"):
        preparation.import_environment()
