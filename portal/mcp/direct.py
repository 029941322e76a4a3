"""The three `pplx_*` tools straight on Perplexity's API, for who has a key and no portal (mcp-deep-research).

The legacy asynchronous API is asked first and, when it says that it was retired, the Agent API, which has
no list: what was started here is then all that can be listed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from portal.api.tools import Tell
from portal.http import AsyncClient, HTTPError, Response, TimeoutException, async_client
from portal.mcp.frames import Frames
from portal.mcp.server import build_server
from portal.mcp.stdio import serve_stdio
from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from portal.wire.tools import Json, Tool, ToolResult, check_names, refused, refused_by
from research.protocol import mcp_deep, mcp_upstream, wire_agent, wire_sonar
from research.protocol.agent import parse_run_request
from research.protocol.mcp_deep import Job
from research.protocol.outcome import Order
from research.protocol.wire_json import objects, read_object, string

log = logging.getLogger(__name__)

SECONDS = 30.0
"""Of one request, for connecting and for each read."""
SLACK = 8.0
"""What a check may take beyond its wait (§2): 48 seconds in all, at most."""
POLL_SECONDS = 5.0
SONAR, AGENT = "/v1/async/sonar", "/v1/agent"


class Refusal(Exception):
    """A call that ends here, with what is told. `status` is the upstream's, 0 for none."""

    def __init__(self, result: ToolResult, status: int = 0) -> None:
        super().__init__(result.text)
        self.result = result
        self.status = status


class DirectToolbox:
    """Nobody but the key's owner calls: the process is theirs."""

    instructions = (
        "Deep research that outlasts a call: pplx_deep_research_start, then pplx_deep_research_check with its"
        " job id."
    )
    templates: tuple[Json, ...] = ()

    def __init__(self, key: str, base_url: str) -> None:
        self._key = key
        self._client: AsyncClient = async_client(base_url, timeout=SECONDS)
        self._is_retired = False
        self._started: dict[str, Job] = {}
        self._tools: dict[str, tuple[Tool, Callable[[Fields, Tell], Awaitable[ToolResult]]]] = {
            tool.name: (tool, work)
            for tool, work in (
                (mcp_deep.START, self._start),
                (mcp_deep.CHECK, self._check),
                (mcp_deep.LIST, self._list),
            )
        }

    async def close(self) -> None:
        await self._client.aclose()

    async def list_tools(self) -> list[Json]:
        return [tool.body() for tool, _ in self._tools.values()]

    async def read(self, caller: object, uri: str) -> str | None:
        return None

    async def call(
        self, caller: object, name: str, arguments: Mapping[str, object], tell: Tell
    ) -> ToolResult:
        if name not in self._tools:
            return refused(f"there is no such tool. The tools are: {', '.join(self._tools)}.")
        if not self._key:
            return mcp_upstream.NO_KEY
        tool, work = self._tools[name]
        try:
            fields = Fields(arguments)
            check_names(tool, fields)
            return await work(fields, tell)
        except Refusal as refusal:
            return refusal.result
        except BadRequest as problem:
            return refused_by(problem)

    async def _start(self, arguments: Fields, tell: Tell) -> ToolResult:
        query, effort, more = mcp_deep.read_start(arguments)
        asked = parse_run_request(Fields({"input": query, **more}), {})
        parameters = {"reasoning_effort": effort, "effort": "fast" if effort == "minimal" else effort}
        order = Order(asked.question, asked.options, parameters, str(uuid4()))
        job = await self._submit(order)
        self._started[job.id] = job
        return mcp_deep.started_text(job, effort)

    async def _submit(self, order: Order) -> Job:
        if not self._is_retired:
            body, _ = wire_sonar.build_request(order)
            answer = await self._send("POST", SONAR, body)
            self._is_retired = mcp_upstream.is_retired(answer.status_code, answer.content)
            if not self._is_retired:
                return mcp_upstream.read_sonar_job(_object(_good(answer, SONAR)))
        body, _ = wire_agent.build_request(order)
        answer = _good(await self._send("POST", AGENT, body), AGENT)
        job = mcp_upstream.read_agent_job(answer.content, _now())
        if job is None:
            raise Refusal(mcp_upstream.no_json(answer.content))
        return job

    async def _check(self, arguments: Fields, tell: Tell) -> ToolResult:
        asked = mcp_deep.read_check(arguments)
        clock = asyncio.get_running_loop().time
        began = clock()
        last: Job | None = None
        try:
            async with asyncio.timeout(asked.wait_seconds + SLACK):
                while True:
                    left = asked.wait_seconds - (clock() - began)
                    last = await self._look(asked.job_id, last, may_wait=left > 0)
                    if left <= 0 or (last is not None and last.status in ("COMPLETED", "FAILED")):
                        break
                    await tell(clock() - began, asked.wait_seconds, last.status if last else "rate limited")
                    await asyncio.sleep(min(POLL_SECONDS, left))
        except TimeoutError:
            pass
        if last is None:
            return mcp_upstream.timed_out(asked.wait_seconds + SLACK, starting=False)
        return mcp_deep.checked_text(last, _now(), strip_thinking=asked.strip_thinking)

    async def _look(self, job_id: str, last: Job | None, *, may_wait: bool = False) -> Job | None:
        """The job as it is; as it was last while the upstream only stumbles (§2), None for a rate limit
        that a first look met and that may be waited for."""
        is_agents = job_id.startswith("resp_")
        path = f"{AGENT if is_agents else SONAR}/{quote(job_id, safe='')}"
        try:
            answer = _good(await self._send("GET", path), path, of_job=True)
            job = (
                mcp_upstream.read_agent_job(answer.content, _now())
                if is_agents
                else mcp_upstream.read_sonar_job(_object(answer))
            )
        except Refusal as refusal:
            if refusal.status in (401, 403, 404) or (
                last is None and not (may_wait and refusal.status == 429)
            ):
                raise
            return last
        if job is None:
            raise Refusal(mcp_upstream.no_json(answer.content))
        return job

    async def _list(self, arguments: Fields, tell: Tell) -> ToolResult:
        status, limit = mcp_deep.read_list(arguments)
        jobs = [job for job in await self._jobs() if status in (None, job.status)]
        jobs.sort(key=lambda job: job.created_at.timestamp() if job.created_at else 0.0, reverse=True)
        return mcp_deep.listed_text(jobs[:limit], status)

    async def _jobs(self) -> list[Job]:
        if not self._is_retired:
            answer = await self._send("GET", SONAR)
            self._is_retired = mcp_upstream.is_retired(answer.status_code, answer.content)
            if not self._is_retired:
                listed = objects(_object(_good(answer, SONAR)).get("requests"))
                return [mcp_upstream.read_sonar_job(job) for job in listed if string(job.get("id"))]
        return [await self._look(job.id, job) or job for job in self._started.values()]

    async def _send(self, method: str, path: str, body: object = None) -> Response:
        headers = {"Authorization": f"Bearer {self._key}"}
        try:
            async with asyncio.timeout(SECONDS + SLACK):
                return await self._client.request(method, path, json=body, headers=headers)
        except (TimeoutException, TimeoutError):
            raise Refusal(mcp_upstream.timed_out(SECONDS, starting=method == "POST")) from None
        except HTTPError:
            raise Refusal(mcp_upstream.unreachable(method, path)) from None


async def serve_direct(key: str, base_url: str, frames: Frames) -> None:
    if not key:
        log.warning("no key: set PERPLEXITY_API_KEY, or SONDE_API_KEY for a portal")
    box = DirectToolbox(key, base_url)
    try:
        await serve_stdio(build_server(box), frames)
    finally:
        await box.close()


def _good(answer: Response, path: str, *, of_job: bool = False) -> Response:
    if answer.is_success:
        return answer
    result = mcp_upstream.refusal_of(
        answer.status_code,
        answer.headers,
        answer.content,
        method=answer.request.method,
        path=path,
        of_job=of_job,
    )
    raise Refusal(result, answer.status_code)


def _object(answer: Response) -> dict[str, Any]:
    found = read_object(answer.content)
    if found is None:
        raise Refusal(mcp_upstream.no_json(answer.content))
    return found


def _now() -> datetime:
    return datetime.now(UTC)
