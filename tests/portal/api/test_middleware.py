from __future__ import annotations

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
