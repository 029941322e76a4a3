"""The legacy Sonar API: asynchronous jobs under both path families, and synchronous completions."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sandbox.attached import without_bytes
from sandbox.bodies import read_body
from sandbox.keys import check_sonar_lives
from sandbox.runs import Moment, expired, look, outcome
from sandbox.scenarios import Script
from sandbox.sonar_request import SonarAsk, invalid, read_chat, read_object
from sandbox.sonar_shapes import completion, job_object, summary
from sandbox.sonar_stream import play
from sandbox.store import Job
from sandbox.streams import troubled
from sandbox.wire import EventStream, dump, refusal
from sandbox.world import Refused, World, script_for

_PAGE = 20
# Bytes that base64 turns into "+/": whoever forgets to encode the token in a URL finds out.
_TOKEN_HEAD = b"\xfb\xff"
_QUICK_SHARE = 0.125  # a synchronous answer of a model that does no deep research, against a deep run


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _fingerprint(request: object) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _token(seq: int) -> str:
    return base64.b64encode(_TOKEN_HEAD + str(seq).encode()).decode()


def _before(token: str | None) -> int | None:
    if not token:
        return None
    try:
        raw = base64.b64decode(token, validate=True)
        return int(raw.removeprefix(_TOKEN_HEAD))
    except ValueError as unreadable:
        raise Refused(refusal(400, "invalid_request", "invalid next_token", "next_token")) from unreadable


def _limit(given: str | None) -> int:
    if given is None:
        return _PAGE
    if not given.isdigit() or not 1 <= int(given) <= 100:
        raise Refused(refusal(400, "invalid_request", "limit must be between 1 and 100", "limit"))
    return int(given)


def _key(body: Mapping[str, Any]) -> str | None:
    key = body.get("idempotency_key")
    if key is not None and not isinstance(key, str):
        raise invalid(["idempotency_key"], "Input should be a valid string", "string_type")
    return key or None


class SonarDoor:
    """Submit, fetch, list; there is no cancel. And the synchronous call."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _snapshot(self, job: Job) -> bytes:
        return dump(job_object(look(job, self._world.clock())))

    def _job(self, account: str, ask: SonarAsk, request: object, key: str | None, seconds: float) -> Job:
        return Job(
            seq=0,
            id=str(uuid.uuid4()),
            api="sonar",
            account=account,
            idempotency_key=key,
            fingerprint=_fingerprint(request),
            question=ask.question,
            body=dump(request).decode(),
            created=self._world.clock(),
            seconds=seconds,
        )

    def _accept(self, job: Job) -> Job:
        """The new job, or the one that its key has: the same body gives the same job, another body a 422."""
        if job.idempotency_key is not None:
            earlier = self._world.store.by_key("sonar", job.account, job.idempotency_key)
            if earlier is not None and earlier.fingerprint != job.fingerprint:
                raise invalid(
                    ["idempotency_key"], "Key was used with another request", "idempotency_conflict"
                )
            if earlier is not None:
                return earlier
        return self._world.store.accept(job)

    async def create(self, request: Request, account: str) -> Response:
        world = self._world
        check_sonar_lives(account, world.mode)
        body = without_bytes(read_object(await read_body(request)))
        if "request" not in body:
            raise invalid(["request"], "Field required", "missing")
        ask, key = read_chat(body["request"], ["request"]), _key(body)
        script = script_for(ask.question, "sonar")
        attempt = world.store.receive("sonar", key, ask.question)
        world.meet("sonar", "submit", script, attempt)
        seconds = script.number("duration", world.seconds)
        job = self._accept(self._job(account, ask, body["request"], key, seconds))
        answer = self._snapshot(job)
        world.meet("sonar", "late", script, attempt, answer)
        await world.sleep(script.number("slow", 0))
        return _json(answer)

    async def retrieve(self, request: Request, account: str) -> Response:
        world = self._world
        check_sonar_lives(account, world.mode)
        job = world.store.poll("sonar", account, request.path_params["id"])
        if job is None or expired(job, world.clock()):
            raise Refused(refusal(404, "not_found", "resource not found"))
        script = script_for(job.question, "sonar")
        await world.sleep(script.number("poll-slow", 0))
        answer = self._snapshot(job)
        world.meet("sonar", "poll", script, job.polls, answer)
        return self._page(account, None, _PAGE) if "poll-list" in script else _json(answer)

    async def list(self, request: Request, account: str) -> Response:
        world = self._world
        check_sonar_lives(account, world.mode)
        world.store.tally("sonar.list")
        world.meet_queued("sonar", "list")
        query = request.query_params
        return self._page(account, _before(query.get("next_token")), _limit(query.get("limit")))

    def _page(self, account: str, before: int | None, limit: int) -> Response:
        """Newest first; one job more than asked for tells whether there is a next page."""
        now = self._world.clock()
        jobs = self._world.store.page("sonar", account, before, limit + 1)
        shown = jobs[:limit]
        more = _token(shown[-1].seq) if len(jobs) > limit else None
        rows = [summary(look(job, now)) for job in shown if not expired(job, now)]
        return _json(dump({"requests": rows, "next_token": more}))

    async def complete(self, request: Request, account: str) -> Response:
        """A synchronous answer, plain or streamed; nothing of it can be fetched later."""
        world = self._world
        check_sonar_lives(account, world.mode)
        body = read_object(await read_body(request))
        ask = read_chat(body)
        script = script_for(ask.question, "sonar")
        world.meet("sonar", "submit", script, world.store.receive("sonar", None, ask.question))
        deep = ask.model == "sonar-deep-research"
        seconds = script.number("duration", world.seconds if deep else world.seconds * _QUICK_SHARE)
        moment = self._finished(self._job(account, ask, body, None, seconds), script)
        if ask.stream:
            return EventStream(troubled(world, script, play(world, moment, ask)))
        await world.sleep(seconds)
        answer = dump(completion(moment, ask.model))
        world.meet("sonar", "late", script, 1, answer)
        return _json(answer)

    def _finished(self, job: Job, script: Script) -> Moment:
        state = outcome(script)
        if state == "failed":
            raise Refused(refusal(500, "internal_error", "the run failed while reading a page"))
        return Moment(job, script, state, 1.0, job.created, job.created + job.seconds)
