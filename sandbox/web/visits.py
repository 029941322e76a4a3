"""One request to the web backend: who sent it, what it meets at the door, and its line in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sandbox.bodies import decode, read_body
from sandbox.faults import Exchange
from sandbox.web.accounts import Caller, Traits, read_traits, split_token
from sandbox.web.ask_request import rejected
from sandbox.web.cookies import UNPREFIXED, read_cookies, session_token, set_parts, set_whole
from sandbox.web.faults import challenge, too_many
from sandbox.web.live import Live
from sandbox.web.store import Account, WebStore
from sandbox.wire import Cut, CutResponse, DroppedConnection, EventStream, reply
from sandbox.world import Call, Refused, World

_DAY = 86400
_FLAKY = 3  # every third call of a flaky account fails
_LOGGED_BODY = 256 * 1024


@dataclass(frozen=True, slots=True)
class Visit:
    """A request with its caller; `account` is the caller's row, None for nobody's. `log` is its number."""

    request: Request
    cookies: dict[str, str]
    caller: Caller
    account: Account | None
    body: bytes
    log: int

    @property
    def flags(self) -> frozenset[str]:
        return self.caller.traits.flags

    def json(self) -> Any:
        """The decoded body; raises Refused with 400."""
        try:
            return decode(self.body)
        except ValueError as unreadable:
            raise rejected("the body is not JSON") from unreadable


Handler = Callable[[Visit], Awaitable[Response]]


def _ordered(traits: Traits, orders: dict[str, Any]) -> Traits:
    """The traits of a name as the control door changed them."""
    flags = frozenset(orders["flags"]) if "flags" in orders else traits.flags
    found = {name: orders[name] for name in ("tier", "standing", "slots") if name in orders}
    return replace(traits, flags=flags, **found)


class WebBackend:
    """What the doors of the web share."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = WebStore(world.store)
        self.live = Live()

    def account(self, name: str) -> Account:
        return self.store.account(name, int(self.world.clock()) // _DAY)

    def _known(self, token: str, *, unprefixed: bool) -> tuple[Caller, Account | None]:
        name, serial = split_token(token)
        if not name:
            return Caller(token=token), None
        account = self.account(name)
        traits = _ordered(read_traits(name), account.orders)
        stale = traits.rotating is not None and not 0 <= account.serial - serial < traits.rotating
        signed_in = traits.standing == "active" and not stale
        return Caller(name, traits, token, serial, signed_in, unprefixed), account

    def recognise(self, cookies: dict[str, str]) -> tuple[Caller, Account | None]:
        """Whose session these cookies are."""
        token = session_token(cookies)
        if token:
            return self._known(token, unprefixed=False)
        return self._known(session_token(cookies, UNPREFIXED), unprefixed=True)

    def _check_standing(self, caller: Caller) -> None:
        """Refuses those whom the edge or the backend turns away at every door (§12)."""
        standing = caller.traits.standing
        if standing in ("blocked", "challenged"):
            raise Refused(challenge(403 if standing == "blocked" else 200))
        if standing == "forbidden":
            raise Refused(reply(403, {}))
        if standing == "rejected":
            raise Refused(reply(401, {"error": "Unauthorized"}))

    def check_pace(self, visit: Visit) -> None:
        """Refuses a busy account, a flaky one now and then, and one without a free slot."""
        traits = visit.caller.traits
        if "busy" in visit.flags:
            raise Refused(too_many(Exchange(None, "2", self.world.clock())))
        if (
            "flaky" in visit.flags
            and self.world.store.tally(f"web.flaky.{visit.caller.account}") % _FLAKY == 0
        ):
            raise Refused(reply(503, {"detail": "Service unavailable"}))
        if traits.slots is not None and self.live.open[visit.caller.account] >= traits.slots:
            raise Refused(too_many(Exchange(None, "1", self.world.clock())))

    def rotated(self, visit: Visit) -> list[str]:
        """`Set-Cookie` lines: the session's next value where it rotates, else the same again (§3)."""
        caller = visit.caller
        token = caller.token
        if caller.traits.rotating is not None:
            token = f"{caller.account}.{self.store.rotate(caller.account)}"
        in_parts = "chunked" in visit.flags and split_token(token)[1] % 2 == 0
        return set_parts(token, visit.cookies) if in_parts else set_whole(token, visit.cookies)

    async def _visit(self, request: Request) -> Visit:
        body = await read_body(request)
        cookies = read_cookies(request)
        caller, account = self.recognise(cookies)
        text = body[:_LOGGED_BODY].decode(errors="replace")
        headers = dict(request.headers)
        path = request.url.path
        log = self.store.open_request(self.world.clock(), request.method, path, caller.account, headers, text)
        return Visit(request, cookies, caller, account, body, log)

    def end(self, log: int, response: Response, entry: str | None = None, events: int | None = None) -> None:
        """Closes a request's line in the log."""
        ending = "cut" if isinstance(response, CutResponse | DroppedConnection) else "done"
        if isinstance(response, EventStream):
            ending = response.ending
        self.store.close_request(log, response.status_code, entry, self.world.clock(), ending, events)

    def guarded(self, handler: Handler, call: Call | None) -> Callable[[Request], Awaitable[Response]]:
        """The handler as an endpoint. `call` names it to queued faults; None where it meets them itself."""

        async def endpoint(request: Request) -> Response:
            request.scope["sandbox.bare"] = True
            visit = await self._visit(request)
            try:
                if call is not None:
                    self.world.meet_queued("web", call)
                self._check_standing(visit.caller)
                response = await handler(visit)
            except Refused as refused:
                response = refused.response
            if "restless" in visit.flags and visit.caller.signed_in and call != "session":
                for line in self.rotated(visit):
                    response.headers.append("set-cookie", line)
            if not isinstance(response, EventStream):
                self.end(visit.log, response)
            return response

        return endpoint


class AnswerStream(EventStream):
    """An event stream that counts as open while it lasts, and is logged with the time of its end."""

    def __init__(
        self,
        backend: WebBackend,
        visit: Visit,
        events: AsyncIterator[bytes | Cut],
        entry: str = "",
        late: float = 0.0,
        count: Callable[[], int] | None = None,
    ) -> None:
        """`count` tells how many records were written; without it the writes are counted."""
        super().__init__(events, late)
        self._backend, self._visit, self._entry, self._count = backend, visit, entry, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        live, account = self._backend.live, self._visit.caller.account
        live.enter(account)
        try:
            await super().__call__(scope, receive, send)
        finally:
            live.leave(account)
            events = self.sent if self._count is None else self._count()
            self._backend.end(self._visit.log, self, self._entry or None, events)
