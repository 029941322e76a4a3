"""POST /rest/sse/perplexity_ask, and what can be done with an entry later (perplexity-web §4, §15)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from sandbox.scenarios import Script
from sandbox.web.accounts import Caller, user_id
from sandbox.web.ask_request import Ask, read_ask, rejected
from sandbox.web.content import content_of
from sandbox.web.frames import Frames, thread_part
from sandbox.web.play import Performance
from sandbox.web.preferences import AUTOMATIC, COUNCIL, PREFERENCES, REPORTED_AUTOMATIC, RESEARCH, allows
from sandbox.web.store import Entry
from sandbox.web.visits import AnswerStream, Visit, WebBackend
from sandbox.wire import dump, reply
from sandbox.world import Refused, script_for

_KEPT_SECONDS = 86400.0  # an entry can be resumed for about a day (§15)


def _gone() -> Refused:
    return Refused(reply(403, {}))


@dataclass(frozen=True, slots=True)
class _Thread:
    """Where a new entry belongs; `fate` is "failed" when the follow-up is refused inside the stream."""

    id: str | None
    fate: str = ""


class AskDoor:
    """Ask, reconnect, terminate, delete."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend, self._world = backend, backend.world

    # Asking.

    def _check_preference(self, ask: Ask, orders: dict[str, Any]) -> None:
        known = ask.preference in PREFERENCES or ask.preference in orders.get("added", ())
        if not known or ask.preference in orders.get("retired", ()):
            raise rejected(f"unknown model_preference {ask.preference!r}")

    def _thread(self, ask: Ask, script: Script, caller: Caller, orders: dict[str, Any]) -> _Thread:
        """The thread of a follow-up; one that is unknown, deleted or somebody else's is answered as told."""
        if ask.previous is None:
            return _Thread(None)
        entry = self._backend.store.entry(ask.previous, caller.account)
        known = entry is not None and ask.token in (None, thread_part(entry.thread, "token"))
        if entry is not None and known and "forget" not in script:
            return _Thread(entry.thread)
        answer = script.markers.get("forget") or orders.get("forgotten", "new")
        if answer.isdigit():
            raise rejected("unknown last_backend_uuid", int(answer))
        return _Thread(None, "failed" if answer == "failed" else "")

    def _model(self, ask: Ask, caller: Caller, orders: dict[str, Any]) -> str:
        """Who answers: free accounts, and too low ones, get another model without a word."""
        preference = ask.preference
        if preference in orders.get("substitutes", {}):
            return str(orders["substitutes"][preference])
        if preference in AUTOMATIC or not allows(caller.tier, preference):
            return REPORTED_AUTOMATIC
        return preference

    def _fate(self, visit: Visit, ask: Ask, thread: _Thread) -> str:
        if thread.fate:
            return thread.fate
        if not visit.caller.signed_in or "walled" in visit.flags:
            return "authwall"
        if ask.preference == COUNCIL and not ask.params.get("compare_model_preferences"):
            return "stuck"
        return ""

    def _spends(self, ask: Ask, fate: str, model: str) -> str | None:
        """The quota that the ask takes from (§17.6): one of copilot's, or one of deep research's."""
        if fate in ("authwall", "failed") or model == REPORTED_AUTOMATIC:
            return None
        return "research" if ask.preference == RESEARCH else "pro"

    def _new(self, visit: Visit, ask: Ask, script: Script, thread: _Thread, orders: dict[str, Any]) -> Entry:
        world = self._world
        entry_id = str(uuid.uuid4())
        usual = world.seconds if ask.preference == RESEARCH else world.chat_seconds
        return Entry(
            seq=0,
            id=entry_id,
            thread=thread.id or entry_id,
            account=visit.caller.account,
            question=ask.question,
            body=dump({"query_str": ask.query, "params": ask.params}).decode(),
            model=self._model(ask, visit.caller, orders),
            fate=self._fate(visit, ask, thread),
            created=world.clock(),
            seconds=script.number("duration", usual),
        )

    def _accept(self, entry: Entry, spends: str | None) -> Entry:
        """Stores the entry; without quota it becomes a refusal inside the stream (§12)."""
        store = self._backend.store
        if store.accept(entry, spends):
            return entry
        refused = replace(entry, fate="upsell")
        store.accept(refused, None)
        return refused

    async def ask(self, visit: Visit) -> Response:
        world, caller = self._world, visit.caller
        if caller.traits.standing == "expired" or (caller.account and not caller.signed_in):
            raise Refused(reply(401, {"error": "Unauthorized"}))
        ask = read_ask(visit.json(), world.web_version)
        script = script_for(ask.question, "web")
        attempt = world.store.receive("web", None, ask.question)
        world.meet("web", "submit", script, attempt)
        self._backend.check_pace(visit)
        orders = visit.account.orders if visit.account else {}
        self._check_preference(ask, orders)
        thread = self._thread(ask, script, caller, orders)
        entry = self._new(visit, ask, script, thread, orders)
        entry = self._accept(entry, self._spends(ask, entry.fate, entry.model))
        world.meet("web", "late", script, attempt)
        return self._stream(visit, entry, ask, script)

    def _performance(self, entry: Entry, ask: Ask, script: Script) -> Performance:
        thread = self._backend.store.questions(entry) if entry.thread != entry.id else ()
        frames = Frames(entry, ask, content_of(ask, entry.model, entry.fate, thread), script)
        return Performance(frames, self._backend.live, self._world.clock)

    def _stream(
        self, visit: Visit, entry: Entry, ask: Ask, script: Script, *, resumed: bool = False
    ) -> Response:
        performance = self._performance(entry, ask, script)
        events = performance.resumed() if resumed else performance.from_the_beginning()
        late = script.number("poll-slow" if resumed else "slow", 0)
        response = AnswerStream(self._backend, visit, events, entry.id, late, lambda: performance.sent)
        response.headers["content-type"] = "text/event-stream; charset=utf-8"
        if visit.caller.account:
            response.headers["x-pplx-account-used"] = user_id(visit.caller.account)
        return response

    # Later.

    def _entry(self, visit: Visit, entry_id: object) -> Entry:
        """One of the caller's own entries; anything else is gone (§15)."""
        found = (
            self._backend.store.entry(str(entry_id), visit.caller.account) if visit.caller.signed_in else None
        )
        if found is None:
            raise _gone()
        return found

    async def reconnect(self, visit: Visit) -> Response:
        world = self._world
        world.meet_queued("web", "poll")
        entry = self._entry(visit, visit.request.path_params["id"])
        script = script_for(entry.question, "web")
        number = self._backend.store.count("reconnects", entry.id)
        world.meet("web", "poll", script, number)
        age = world.clock() - entry.created
        if "no-resume" in script or age >= script.number("expire", _KEPT_SECONDS):
            raise _gone()
        return self._stream(visit, entry, read_ask(json.loads(entry.body), None), script, resumed=True)

    async def terminate(self, visit: Visit) -> Response:
        world = self._world
        body = visit.json()
        world.meet_queued("web", "cancel")
        entry = self._entry(visit, body.get("entry_uuid") if isinstance(body, dict) else None)
        script = script_for(entry.question, "web")
        number = self._backend.store.count("stops", entry.id)
        await world.sleep(script.number("cancel-slow", 0))
        world.meet("web", "cancel", script, number)
        if "cancel-refused" in script:
            raise _gone()
        ask = read_ask(json.loads(entry.body), None)
        if "cancel-ignored" not in script and not self._performance(entry, ask, script).is_over():
            self._backend.store.stop(entry.id, world.clock())
            self._backend.live.stop(entry.id)
        done = {
            "status": "completed",
            "_response_type": "COMPLETED_RESPONSE",
            "thread_url_slug": entry.thread,
        }
        return reply(200, done)

    async def delete(self, visit: Visit) -> Response:
        body = visit.json()
        given = body if isinstance(body, dict) else {}
        entry = self._entry(visit, given.get("entry_uuid"))
        if given.get("read_write_token") != thread_part(entry.thread, "token"):
            raise _gone()
        self._backend.store.delete(entry, self._world.clock())
        return reply(200, {"status": "success"})
