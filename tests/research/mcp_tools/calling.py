"""A person's agent, calling the research tools in this process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from portal.api.tools import ToolDoor, call_tool
from portal.services.principal import Principal
from portal.wire.tools import ToolResult
from research.mcp_tools import answering, deep, runs
from tests.research.people import somebody

DOORS: dict[str, ToolDoor] = {door.tool.name: door for door in (*runs.doors, *deep.doors, *answering.doors)}


@dataclass(frozen=True, slots=True)
class Agent:
    who: Principal
    told: list[tuple[float, float | None, str]] = field(default_factory=list)
    """Progress that it was told of."""

    def call(self, name: str, **arguments: Any) -> ToolResult:
        async def tell(done: float, total: float | None, words: str) -> None:
            self.told.append((done, total, words))

        return asyncio.run(call_tool(DOORS[name], self.who, arguments, tell))

    def structured(self, name: str, **arguments: Any) -> dict[str, Any]:
        answer = self.call(name, **arguments)
        assert not answer.is_error, answer.text
        assert answer.structured is not None
        return answer.structured

    def error(self, name: str, **arguments: Any) -> dict[str, Any]:
        answer = self.call(name, **arguments)
        assert answer.is_error, answer.text
        assert answer.text.startswith("Error: ")
        assert answer.structured is not None
        error: dict[str, Any] = answer.structured["error"]
        return error

    def start(self, question: str = "Why is the sky blue?", key: str = "one", **more: Any) -> dict[str, Any]:
        return self.structured("start_research", question=question, idempotency_key=key, **more)


def agent(credits: int = 10) -> Agent:
    return Agent(somebody(credits))
