"""Messages to administrators: to ntfy, by the seed's variables."""

from __future__ import annotations

import pytest
from pytest_django.fixtures import Settings

from portal.services import notify
from portal.services.notify import Notice
from tests.sandbox_server import SandboxServer, free_port

pytestmark = pytest.mark.django_db
NOTICE = Notice("Título", "Ein Text: 你好", ("warning", "key"), is_urgent=True, link="http://portal/admin/")


@pytest.fixture
def ntfy(sandbox_process: SandboxServer, settings: Settings) -> SandboxServer:
    sandbox_process.reset()
    settings.NTFY_URL, settings.NTFY_TOPIC = sandbox_process.url, "operators"
    return sandbox_process


def test_it_delivers_a_message_in_any_letters(ntfy: SandboxServer) -> None:
    assert notify.send(NOTICE)

    message = ntfy.messages("operators")[0]
    assert (message["title"], message["message"]) == ("Título", "Ein Text: 你好")


@pytest.mark.parametrize("topic", ["busy-1", "locked-1", "forbidden-1"])
def test_it_says_that_a_message_was_not_taken(ntfy: SandboxServer, settings: Settings, topic: str) -> None:
    settings.NTFY_TOPIC = topic

    assert not notify.send(NOTICE)


def test_it_says_that_nobody_was_there(settings: Settings) -> None:
    settings.NTFY_URL, settings.NTFY_TOPIC = f"http://127.0.0.1:{free_port()}", "operators"

    assert not notify.send(NOTICE)


@pytest.mark.parametrize(
    ("topic", "usable", "is_wrong"),
    [
        ("", "", False),
        ("operators_1-a", "operators_1-a", False),
        ("pplx-proxy", "", True),
        ("two words", "", True),
        ("a/b", "", True),
        ("x" * 65, "", True),
    ],
)
def test_it_takes_no_topic_that_others_read(
    settings: Settings, topic: str, usable: str, is_wrong: bool
) -> None:
    settings.NTFY_TOPIC = topic

    assert notify.topic() == usable
    assert bool(notify.problem()) is is_wrong
    assert usable or not notify.send(NOTICE)
