"""What a run goes on from, and a chat that goes on from a run: one thread, whichever door (SPEC 3.8, 4.2).

find_previous   whose `previous_response_id` it is: a run's, or a chat's response
earlier_of      what the upstream is told of it, when the run is submitted
said_in_run     the words of a run, for a chat
shown_in_run    what was attached to it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import BadRequest
from proxy.models.responses import ChatResponse
from proxy.protocol.response_functions import Past, from_said
from proxy.queries import visible_responses
from proxy.services.attachments import Enclosure
from proxy.services.deep_attachments import attached_to
from research.models.runs import Run
from research.protocol.outcome import Earlier
from research.protocol.states import State
from research.queries import visible_runs

PARAM = "previous_response_id"
MOST_CARRIED = 100_000
"""Characters of a chat that a run takes along: what both upstreams still take as a question."""
MOST_RUNS = 10
LONGEST_THREAD = 48_000
"""Characters of runs before the one that a chat goes on from: half of what a prompt may have."""
_HAS_REPORT = (State.COMPLETED, State.INCOMPLETE)
Said = tuple[str, str]
"""Role and text."""


@dataclass(frozen=True, slots=True)
class Previous:
    """At most one of the two."""

    run: UUID | None = None
    chat: UUID | None = None


def find_previous(who: Principal, wanted: UUID) -> Previous:
    """Raises BadRequest for what is not the caller's, and for what has nothing to go on from."""
    run = visible_runs(who).filter(pk=wanted).only("state").first()
    if run is not None:
        if State(run.state) not in _HAS_REPORT:
            raise BadRequest("Only a run with a report can be followed up.", param=PARAM)
        return Previous(run=wanted)
    if Scope.CHAT.value in who.scopes:
        status = visible_responses(who).filter(pk=wanted).values_list("status", flat=True).first()
        if status == ChatResponse.Status.COMPLETED:
            return Previous(chat=wanted)
        if status is not None:
            raise BadRequest(f"The previous response is {status}: only a completed one goes on.", param=PARAM)
    raise BadRequest("No response with this id exists.", param=PARAM)


def earlier_of(run: Run, backend: str) -> Earlier | None:
    """None where there is nothing, or where it was deleted since the run was asked for."""
    if run.previous_chat is not None:
        chat = _newest(_of_chat(run.previous_chat), MOST_CARRIED)
        return Earlier(chat=chat) if chat else None
    if run.previous_id is None:
        return None
    before = _with_report(run.previous_id)
    if before is None:
        return None
    # The upstream continues completed jobs only (perplexity-api §5.2).
    same = before.backend == backend and before.state == State.COMPLETED
    return Earlier(before.question, before.report.text, before.upstream_id if same else None)


def said_in_run(who: Principal, wanted: UUID) -> tuple[Said, ...] | None:
    """Question and report, and what the run went on from as far as there is room; None without such a run.

    Raises BadRequest for a run without a report.
    """
    if Scope.RESEARCH.value not in who.scopes:
        return None
    run = visible_runs(who).select_related("report").filter(pk=wanted).first()
    if run is None:
        return None
    if State(run.state) not in _HAS_REPORT:
        told = f"The previous response is {run.status}: only one with a report goes on."
        raise BadRequest(told, param=PARAM)
    return (*_newest(_before(run), LONGEST_THREAD), *_words(run))


def shown_in_run(wanted: UUID) -> tuple[Enclosure, ...]:
    """What was attached to a run whose words were read. Raises BadRequest when the bytes of one are gone."""
    return attached_to(Run.objects.values_list("upstream_key", flat=True).get(pk=wanted))


def _before(run: Run) -> list[Said]:
    """What was said before a run, the oldest first."""
    said: list[Said] = []
    for _ in range(MOST_RUNS):
        if run.previous_chat is not None:
            return [*_of_chat(run.previous_chat), *said]
        if run.previous_id is None or (before := _with_report(run.previous_id)) is None:
            break
        run = before
        said = [*_words(run), *said]
    return said


def _with_report(run: UUID) -> Run | None:
    """None where retention has taken the report."""
    return Run.objects.select_related("report").filter(pk=run, report__isnull=False).first()


def _words(run: Run) -> list[Said]:
    return [("user", run.question), ("assistant", run.report.text)]


def _of_chat(chat: UUID) -> list[Said]:
    """Function calls say nothing in a prompt; their outputs are the user's words (proxy-contract §8.2)."""
    said = ChatResponse.objects.filter(pk=chat).values_list("said", flat=True).first()
    return [(message.role, message.text) for message in Past(from_said(said or ())).messages]


def _newest(said: Sequence[Said], room: int) -> tuple[Said, ...]:
    """The last of them that fit into so many characters."""
    kept: list[Said] = []
    for turn in reversed(said):
        room -= len(turn[1])
        if room < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))
