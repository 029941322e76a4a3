"""The lean doors one by one: who may pass, where it works, and whatever it raises as an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from portal.api.auth import authenticate, recall, require_scope
from portal.api.bodies import check_content_type, read_json
from portal.api.handler import problem_of
from portal.api.intake import LARGEST_BODY, Disconnected
from portal.api.replies import Answer, Reply, answer_of
from portal.api.streaming import Presence
from portal.api.threads import run_in_database
from portal.services.limits import admit_request
from portal.services.principal import Principal


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read. `headers` are by lower-case name, `parts` what the path's braces name."""

    method: str
    path: str
    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    peer: str | None
    request_id: str
    presence: Presence

    def json(self) -> object:
        """Raises NotJson and BadRequest."""
        check_content_type(self.headers.get("content-type", ""), self.headers.get("content-encoding", ""))
        return read_json(self.body)


@dataclass(frozen=True, slots=True)
class KeyRoute:
    """A door that a key with `scope` opens; "" leaves that to the door. `door` runs in a database thread."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal], Reply]
    largest: int = LARGEST_BODY
    """Bytes of a body. Those above `LARGEST_BODY` are read and worked on a few at a time."""

    async def look_first(self, call: Call) -> None:
        """Raises what a stranger gets, before a large body is waited for."""
        await run_in_database(partial(authenticate, call.headers, call.peer, call.request_id))

    async def reply(self, call: Call) -> Reply:
        return await run_in_database(partial(self._serve, call))

    def _serve(self, call: Call) -> Reply:
        limits: dict[str, str] = {}
        answer: Reply
        try:
            answer = self.door(call, _let_in(call, self.scope, limits))
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, call.request_id), call.path)
        return replace(answer, headers={**limits, **answer.headers})


@dataclass(frozen=True, slots=True)
class SwiftRoute:
    """A door that hundreds pass at once; `scope` as above. `door` runs on the event loop and must not block
    it; a caller who was let in a moment ago passes without a look at the database."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal], Awaitable[Reply]]
    largest: int = LARGEST_BODY

    async def look_first(self, call: Call) -> None:
        """Raises what a stranger gets, before a large body is waited for."""
        await run_in_database(partial(authenticate, call.headers, call.peer, call.request_id))

    async def reply(self, call: Call) -> Reply:
        limits: dict[str, str] = {}
        answer: Reply
        try:
            who = recall(call.headers, call.peer, call.request_id)
            if who is None:
                who = await run_in_database(partial(_let_in, call, self.scope, limits))
            if self.scope:
                require_scope(who, self.scope)
            answer = await self.door(call, who)
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, call.request_id), call.path)
        return replace(answer, headers={**limits, **answer.headers}) if limits else answer


@dataclass(frozen=True, slots=True)
class UploadRoute:
    """A door that reads its body itself, as it comes. `door` runs on the event loop, after the caller was
    let in; of a body it gets at most `largest` bytes."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal, AsyncIterator[bytes]], Awaitable[Answer]]
    largest: int

    async def reply(self, call: Call, body: AsyncIterator[bytes]) -> Reply:
        limits: dict[str, str] = {}
        try:
            who = await run_in_database(partial(_let_in, call, self.scope, limits))
            answer = await self.door(call, who, body)
        except Disconnected:
            raise
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, call.request_id), call.path)
        return replace(answer, headers={**limits, **answer.headers})


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """A door without a lock. `door` runs on the event loop and must not block it."""

    method: str
    path: str
    door: Callable[[Call], Awaitable[Answer]]

    async def look_first(self, call: Call) -> None:
        """Everybody may."""

    async def reply(self, call: Call) -> Reply:
        return await self.door(call)


Route = KeyRoute | SwiftRoute | OpenRoute | UploadRoute


def _let_in(call: Call, scope: str, limits: dict[str, str]) -> Principal:
    """Whose call it is, counted. `limits` takes the headers that say so, also when it is refused."""
    who = authenticate(call.headers, call.peer, call.request_id)
    limits.update(admit_request(who).headers)
    if scope:
        require_scope(who, scope)
    return who
