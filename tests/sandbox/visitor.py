"""A client of the in-process sandbox, and the clock that both share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

HEADERS = {"authorization": "Bearer pplx-tester"}
START = 1_800_000_000.0


class Clock:
    """Unix seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True, slots=True)
class Visitor:
    """Asks and fetches as a product would; runs take 10 s unless the question says otherwise."""

    client: httpx.AsyncClient
    clock: Clock

    async def submit_agent(self, question: str, **more: Any) -> httpx.Response:
        body = {"input": question, "preset": "medium", "background": True, **more}
        return await self.client.post("/v1/agent", json=body)

    async def ask_agent(self, question: str, **more: Any) -> str:
        """The id of an accepted run."""
        answer = await self.submit_agent(question, **more)
        assert answer.status_code == 200, answer.text
        found: str = answer.json()["id"]
        return found

    async def fetch_agent(self, run: str) -> dict[str, Any]:
        answer = await self.client.get(f"/v1/agent/{run}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def run_agent(self, question: str, **more: Any) -> dict[str, Any]:
        """The response object at the end of a run."""
        run = await self.ask_agent(question, **more)
        self.clock.forward(11)
        return await self.fetch_agent(run)

    async def submit_sonar(self, question: str, key: str | None = None, **more: Any) -> httpx.Response:
        return await self.client.post("/v1/async/sonar", json=sonar_body(question, key, **more))

    async def ask_sonar(self, question: str, key: str | None = None, **more: Any) -> str:
        answer = await self.submit_sonar(question, key, **more)
        assert answer.status_code == 200, answer.text
        found: str = answer.json()["id"]
        return found

    async def fetch_sonar(self, job: str) -> dict[str, Any]:
        answer = await self.client.get(f"/v1/async/sonar/{job}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def run_sonar(self, question: str, **more: Any) -> dict[str, Any]:
        """The job object at the end of a job."""
        job = await self.ask_sonar(question, **more)
        self.clock.forward(11)
        return await self.fetch_sonar(job)


def sonar_body(question: str, key: str | None = None, **more: Any) -> dict[str, Any]:
    request = {"model": "sonar-deep-research", "messages": [{"role": "user", "content": question}], **more}
    return {"request": request, "idempotency_key": key}


def agent_text(response: dict[str, Any]) -> str:
    """The concatenated output_text of a response."""
    items = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in items for part in item["content"])


def agent_results(response: dict[str, Any]) -> list[dict[str, Any]]:
    """All search results of a response, in order."""
    return [
        entry for item in response["output"] if item["type"] == "search_results" for entry in item["results"]
    ]


def sonar_message(job: dict[str, Any]) -> Any:
    return job["response"]["choices"][0]["message"]["content"]
