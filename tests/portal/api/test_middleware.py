from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portal.asgi import application
from tests.api_client import Client

pytestmark = pytest.mark.django_db(transaction=True)
client = Client(application)


@pytest.mark.parametrize("path", ["/api/nope", "/v1/nope", "/nowhere"])
def test_it_names_each_request_on_both_sides_of_the_house(path: str) -> None:
    response = client.get(path, headers={"x-request-id": "mine"})
    assert (response.status_code, response.headers.get_list("x-request-id")) == (404, ["mine"])


def test_it_answers_a_preflight_without_a_view() -> None:
    headers = {"origin": "https://lab.example", "access-control-request-method": "GET"}
    assert client.request("OPTIONS", "/api/account", headers=headers).status_code == 204


async def test_it_survives_a_request_for_no_path_at_all() -> None:
    """`OPTIONS *` is legal HTTP; uvicorn hands it over with this path."""
    sent: list[Any] = []
    messages = [{"type": "http.request"}]

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.Future()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "OPTIONS", "path": "*", "query_string": b"", "headers": headers}
    await application(scope, receive, send)
    assert sent[0]["status"] == 404
