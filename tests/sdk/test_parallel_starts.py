"""Twenty starts at once over real sockets: one key, one run; one price, one run (agent-api §10)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.running_server import RunningServer
from tests.sdk.conftest import new_key

pytestmark = pytest.mark.slow
AT_ONCE = 20


def start_at_once(server: RunningServer, key: str, name: Callable[[int], str]) -> list[dict[str, Any]]:
    """One start per idempotency key that `name` gives, all of them on their way together."""

    async def all_of_them() -> list[httpx.Response]:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
            body = {"input": "Why is the sky blue?", "preset": "high"}
            starts = [
                client.post("/v1/agent", json=body, headers={"Idempotency-Key": name(number)})
                for number in range(AT_ONCE)
            ]
            return await asyncio.gather(*starts)

    answers = asyncio.run(all_of_them())
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json() for answer in answers]


def read(server: RunningServer, key: str, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(
        f"{server.url}{path}", headers={"Authorization": f"Bearer {key}"}
    ).json()
    return answer


def test_it_makes_one_run_and_one_charge_of_twenty_equal_starts(server: RunningServer) -> None:
    key = new_key(server, credits=2)
    started = start_at_once(server, key, lambda number: "the same")
    assert len({run["id"] for run in started}) == 1
    assert len(read(server, key, "/v1/agent")["data"]) == 1
    credits = read(server, key, "/api/account")["credits"]
    assert credits["balance"] == 0
    run = read(server, key, f"/v1/agent/{started[0]['id']}")
    assert (run["status"], run["error"]) in [(word, None) for word in ("queued", "in_progress", "completed")]


def test_it_admits_one_of_twenty_starts_when_there_is_credit_for_one(server: RunningServer) -> None:
    key = new_key(server, credits=2)
    started = start_at_once(server, key, lambda number: f"key {number}")
    assert len({run["id"] for run in started}) == AT_ONCE
    runs = read(server, key, "/v1/agent?limit=100")["data"]
    codes = Counter(run["error"] and run["error"]["code"] for run in runs)
    assert codes == {"insufficient_quota": AT_ONCE - 1, None: 1}
    assert read(server, key, "/api/account")["credits"]["balance"] == 0
