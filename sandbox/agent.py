"""The Agent API under its two names, /v1/agent and /v1/responses (perplexity-api §5)."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from sandbox.agent_request import AgentAsk, read_ask
from sandbox.agent_shapes import asked_for, response
from sandbox.agent_stream import play
from sandbox.attached import without_bytes
from sandbox.bodies import read_json
from sandbox.faults import FAULTS, Exchange
from sandbox.runs import expired, look
from sandbox.scenarios import Script
from sandbox.store import Job
from sandbox.streams import troubled
from sandbox.wire import EventStream, dump, refusal, reply
from sandbox.world import Refused, World, script_for

TERMINAL = "the run is already terminal and cannot be cancelled"
_GLANCE = 0.05  # seconds between two looks at a synchronous run
_AFTER_ANY_LAG = 2**31
_ID = re.compile(r"resp_[A-Za-z0-9_-]{1,100}", re.ASCII)


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _not_found() -> Refused:
    return Refused(refusal(404, "not_found", "resource not found"))


def _run_id(request: Request) -> str:
    found: str = request.path_params["id"]
    if _ID.fullmatch(found) is None:
        raise Refused(refusal(400, "invalid_request", "invalid response id"))
    request.scope["sandbox.request_id"] = found.removeprefix("resp_")
    return found


class AgentDoor:
    """Create, retrieve, cancel, and the (always empty) list of a run's files."""

    def __init__(self, world: World, edge_seconds: float) -> None:
        self._world = world
        self._edge_seconds = edge_seconds

    def _snapshot(self, job: Job) -> bytes:
        now = self._world.clock()
        return dump(response(look(job, now), now))

    def _check_previous(self, account: str, previous: str | None) -> None:
        """A follow-up needs a completed run of the same account, stored or not (§5.2)."""
        if previous is None:
            return
        job = self._world.store.find("agent", account, previous)
        if job is None or look(job, self._world.clock()).state != "completed":
            raise Refused(refusal(400, "invalid_request", "invalid request", "previous_response_id"))

    def _new_job(self, account: str, ask: AgentAsk, body: object, script: Script) -> Job:
        return Job(
            seq=0,
            id=f"resp_{uuid.uuid4()}",
            api="agent",
            account=account,
            idempotency_key=None,
            fingerprint="",
            question=ask.question,
            body=dump(body).decode(),
            created=self._world.clock(),
            seconds=script.number("duration", self._world.seconds),
        )

    async def create(self, request: Request, account: str) -> Response:
        world = self._world
        body = without_bytes(await read_json(request))
        ask = read_ask(body)
        script = script_for(ask.question, "agent")
        attempt = world.store.receive("agent", None, ask.question)
        world.meet("agent", "submit", script, attempt)
        self._check_previous(account, ask.previous)
        job = world.store.accept(self._new_job(account, ask, body, script))
        request.scope["sandbox.request_id"] = job.id.removeprefix("resp_")
        answer = self._snapshot(job)
        world.meet("agent", "late", script, attempt, answer)
        await world.sleep(script.number("slow", 0))
        if ask.stream:
            return EventStream(troubled(world, script, play(world, job, -1)))
        return _json(answer if ask.background else self._snapshot(await self._finished(job)))

    async def _finished(self, job: Job) -> Job:
        """Waits for the end of a synchronous run; the edge cuts it after about 300 s (§1)."""
        world = self._world
        until = world.clock() + self._edge_seconds
        while world.clock() < until:
            current = world.store.find("agent", job.account, job.id) or job
            if current.cancelled_at is not None:
                current = replace(current, polls=_AFTER_ANY_LAG)
            if look(current, world.clock()).terminal:
                return current
            await world.sleep(_GLANCE)
        raise Refused(FAULTS["drop"].answer(Exchange(None, None, world.clock())))

    async def retrieve(self, request: Request, account: str) -> Response:
        world = self._world
        job = world.store.poll("agent", account, _run_id(request))
        if job is None or expired(job, world.clock()) or not asked_for(job.body)[1].store:
            raise _not_found()
        script = script_for(job.question, "agent")
        await world.sleep(script.number("poll-slow", 0))
        answer = self._snapshot(job)
        world.meet("agent", "poll", script, job.polls, answer)
        if request.query_params.get("stream") == "true":
            return self._resume(request, job, script)
        return _json(answer)

    def _resume(self, request: Request, job: Job, script: Script) -> Response:
        after = request.query_params.get("starting_after", "-1")
        if "no-resume" in script or not after.removeprefix("-").isdigit():
            raise Refused(
                refusal(400, "invalid_request", "the stream can no longer be resumed", "starting_after")
            )
        return EventStream(play(self._world, job, int(after)))

    async def cancel(self, request: Request, account: str) -> Response:
        """An unknown run is refused in the same words as a terminal one (§2)."""
        world = self._world
        await request.body()
        job = world.store.count_cancel(account, _run_id(request))
        if job is None or expired(job, world.clock()):
            raise Refused(refusal(400, "invalid_request", TERMINAL))
        script = script_for(job.question, "agent")
        await world.sleep(script.number("cancel-slow", 0))
        world.meet("agent", "cancel", script, job.cancels)
        if "cancel-refused" in script or look(replace(job, polls=job.polls + 1), world.clock()).terminal:
            raise Refused(refusal(400, "invalid_request", TERMINAL))
        world.store.cancel(job.id, world.clock())
        return reply(200, {"response_id": job.id, "status": "cancelling"})

    async def files(self, request: Request, account: str) -> Response:
        if self._world.store.find("agent", account, _run_id(request)) is None:
            raise _not_found()
        return reply(200, {"object": "list", "data": []})

    async def file(self, request: Request, account: str) -> Response:
        _run_id(request)
        raise _not_found()
