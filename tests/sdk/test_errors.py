"""Each error arrives as the class that the SDK has for it (openai-compat §1.3, perplexity-api §7.4)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import openai
import perplexity
import pytest

from tests.running_server import RunningServer
from tests.sdk.conftest import new_key

pytestmark = pytest.mark.slow
SDKS: dict[str, Any] = {"openai": openai, "perplexity": perplexity}
Make = Callable[[str], Any]


@pytest.fixture(params=sorted(SDKS))
def sdk(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make(server: RunningServer, sdk: str) -> Make:
    def client(key: str) -> Any:
        if sdk == "openai":
            return openai.OpenAI(api_key=key, base_url=f"{server.url}/v1", max_retries=0)
        return perplexity.Perplexity(api_key=key, base_url=server.url, max_retries=0)

    return client


def envelope(error: Any) -> dict[str, Any]:
    """openai unwraps it, perplexityai shows the whole body."""
    body: dict[str, Any] = error.body
    found: dict[str, Any] = body.get("error", body)
    return found


Case = tuple[Callable[[Any], Any], str, str | None]
CASES: list[Case] = [
    (
        lambda client: client.responses.create(input="Why?", extra_body={"preset": "x"}),
        "BadRequestError",
        "preset",
    ),
    (lambda client: client.responses.create(input="Hello", model="gpt-5"), "BadRequestError", "model"),
    (
        lambda client: client.responses.create(input="Why?", background=False, extra_body={"preset": "2m"}),
        "BadRequestError",
        "background",
    ),
    (lambda client: client.responses.retrieve("nonsense/../x"), "NotFoundError", None),
    (lambda client: client.responses.cancel("resp_" + "0" * 32), "NotFoundError", "response_id"),
]


@pytest.mark.parametrize(("call", "class_name", "param"), CASES)
def test_it_raises_the_sdk_s_own_class(
    server: RunningServer,
    make: Make,
    sdk: str,
    call: Callable[[Any], Any],
    class_name: str,
    param: str | None,
) -> None:
    with make(server.api_key) as client, pytest.raises(getattr(SDKS[sdk], class_name)) as caught:
        call(client)
    assert envelope(caught.value)["param"] == param
    assert caught.value.response.headers["x-request-id"]


def test_it_refuses_a_key_without_the_scope(server: RunningServer, make: Make, sdk: str) -> None:
    key = new_key(server, credits=1, scopes="files")
    with make(key) as client, pytest.raises(SDKS[sdk].PermissionDeniedError):
        client.responses.retrieve("resp_" + "0" * 32)


def test_it_limits_the_rate(server: RunningServer, make: Make, sdk: str) -> None:
    key = new_key(server, credits=1, rpm="1")

    def ask_thrice(client: Any) -> None:
        for _ in range(3):  # a minute may turn in between
            with suppress(SDKS[sdk].NotFoundError):
                client.responses.retrieve("resp_" + "0" * 32)

    with make(key) as client, pytest.raises(SDKS[sdk].RateLimitError) as caught:
        ask_thrice(client)
    assert envelope(caught.value)["code"] == "rate_limit_exceeded"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 60


def test_it_refuses_to_stop_what_has_ended(server: RunningServer, make: Make, sdk: str) -> None:
    key = new_key(server, credits=0)
    with make(key) as client:
        ended = client.responses.create(input="Why?", extra_body={"preset": "2m"})
        with pytest.raises(SDKS[sdk].BadRequestError) as caught:
            client.responses.cancel(ended.id)
    assert envelope(caught.value)["message"] == "the run is already terminal"
