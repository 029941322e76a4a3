"""Starting a run: idempotency, admission, row, reservation and event in one transaction.

The door may answer as soon as this returns: everything is committed. Whatever money or limits
refuse is a run that failed, not an error (agent-api §7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.models.audit import AuditEntry
from portal.models.keys import ApiKey
from portal.models.users import User
from portal.services import audit, ledger
from portal.services.principal import Principal
from portal.services.queue import ring_after_commit
from portal.services.upstreams import expects_sandbox
from portal.wire.crash import crashpoint
from portal.wire.errors import BadRequest
from portal.wire.idempotency import reused
from proxy.queries import visible_responses
from proxy.services.attachments import Enclosure, dropped_on_failure, keep_inline
from proxy.services.deep_attachments import attached_to, hold, let_in
from research.models.presets import Preset
from research.models.runs import Door, Run, ledger_subject
from research.protocol.fingerprint import fingerprint
from research.protocol.options import RunRequest
from research.protocol.outcome import Options
from research.protocol.states import State
from research.queries import enabled_presets, live_runs, usual_seconds
from research.services import moves
from research.services.earlier import Previous, find_previous
from research.services.moves import Event

QUEUE_PATIENCE = timedelta(hours=1)
"""How long beyond its budget a run may wait to be taken by an upstream."""
RESENT_WITHIN = timedelta(seconds=120)
TITLE_LENGTH = 120
QUEUED = Event("queued")
"""The first event of a run that was admitted."""


@dataclass(frozen=True, slots=True)
class Started:
    run: Run
    replayed: bool
    """The same request had been started before: this is that run, as it is now."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a valid request was not admitted; the run carries it as its error."""

    code: str
    message: str


def start_run(
    who: Principal, request: RunRequest, door: str, enclosures: Sequence[Enclosure] = ()
) -> Started:
    """Start a run, or find the one that this request started before. `enclosures` are attached to it
    that were let in before, instead of the request's own.

    Raises BadRequest (`preset`, `previous_response_id`, `input` for what is attached), TooLarge, and
    Conflict (an idempotency key that was used with other parameters).
    """
    preset = find_preset(request.preset)
    previous = find_previous(who, request.previous_id) if request.previous_id else Previous()
    known = _started_before(who, request, preset)
    if known is not None:
        return Started(known, replayed=True)
    kept = keep_inline(who.user_id, enclosures or let_in(who, request.attached))
    run = new_run(who, request, preset, usual_seconds(preset), door)
    run.previous_id, run.previous_chat = previous.run, previous.chat
    try:
        with dropped_on_failure(kept), transaction.atomic():
            _write(who, run)
            hold(run.upstream_key, kept)
            crashpoint("start.before_commit")
    except IntegrityError:
        # Lost a race for the idempotency key: the winner's row is the answer.
        known = _started_before(who, request, preset)
        if known is None:
            raise
        return Started(known, replayed=True)
    crashpoint("start.rung")
    return Started(run, replayed=False)


@transaction.atomic
def retry_run(who: Principal, run_id: UUID) -> Run:
    """Ask a finished run's question again as a new run of the same user, linked to the old.

    Raises BadRequest for a run that goes on, that was deleted, whose retry is at work (two clicks are
    one run, and one charge), or of which something attached is gone.
    """
    old = Run.objects.select_for_update(of=("self",), no_key=True).filter(pk=run_id, hidden_at=None).first()
    if old is None or not old.is_terminal:
        raise BadRequest("Only a run that has ended and was not deleted can be retried.")
    if old.retries.filter(completed_at=None).exists():
        raise BadRequest("A retry of this run is at work already.")
    options = Options.of(old.options)
    request = RunRequest(
        old.question, options, preset=old.preset, metadata=old.metadata, previous_id=old.continues
    )
    owner = replace(who, user_id=old.user_id, key_id=None, key_public_id="")
    run = start_run(owner, request, Door.ADMIN, attached_to(old.upstream_key)).run
    Run.objects.filter(pk=run.pk).update(retry_of=old)
    audit.record(who, "run.retried", old.public_id, new=run.public_id)
    run.retry_of = old
    return run


def find_preset(word: str | None) -> Preset:
    """The enabled preset that `word` names or is an alias of; the default one for None."""
    return choose_preset(enabled_presets(), word)


def choose_preset(presets: Sequence[Preset], word: str | None) -> Preset:
    """The same among enabled presets that were read before. Raises BadRequest."""
    for preset in presets:
        if preset.is_default if word is None else word in (preset.name, *preset.aliases):
            return preset
    names = ", ".join(preset.name for preset in presets)
    raise BadRequest(f"Unknown preset. Choose one of: {names}.", param="preset")


def _print_of(request: RunRequest, preset: Preset) -> str:
    is_longer = request.least_budget > preset.time_budget
    return fingerprint(request, preset.name, request.least_budget if is_longer else None)


def _started_before(who: Principal, request: RunRequest, preset: Preset) -> Run | None:
    """Only the key is looked at where nothing is found, which is nearly always."""
    print_ = _print_of(request, preset)
    mine = Run.objects.filter(user_id=who.user_id)
    if request.idempotency_key:
        found = mine.filter(idempotency_key=request.idempotency_key)
    elif request.retry_count:
        # An SDK resends a create it got no answer to, without a key (agent-api §6.3).
        since = timezone.now() - RESENT_WITHIN
        found = mine.filter(key_id=who.key_id, fingerprint=print_, created_at__gte=since)
    else:
        return None
    known = found.order_by("-created_at").values_list("pk", "fingerprint").first()
    if known is None:
        return None
    if known[1] != print_:
        raise reused()
    return Run.objects.select_related("report").get(pk=known[0])


def has_key(who: Principal, key: str) -> bool:
    """Whether a run was started under this idempotency key, deleted ones among them."""
    return Run.objects.filter(user_id=who.user_id, idempotency_key=key).exists()


def new_run(who: Principal, request: RunRequest, preset: Preset, usual: int, door: str) -> Run:
    """The row of a run that is admitted and stands by itself, still to be written; `usual` is its usual
    time in seconds."""
    return Run(
        id=uuid4(),
        user_id=who.user_id,
        key_id=who.key_id,
        door=door,
        idempotency_key=request.idempotency_key or None,
        fingerprint=_print_of(request, preset),
        question=request.question,
        title=_title(request.question),
        options=asdict(request.options),
        metadata=request.metadata,
        ignored=list(request.ignored),
        sandbox=expects_sandbox(),
        usual_seconds=usual,
        event_seq=1,
        **_terms(preset, request.least_budget),
    )


def _terms(preset: Preset, least_budget: int) -> dict[str, Any]:
    """The values a run is admitted with and keeps, whatever happens to the preset."""
    now = timezone.now()
    time_budget = max(preset.time_budget, least_budget)
    return {
        "preset": preset.name,
        "price": preset.price,
        "time_budget": time_budget,
        "backends": preset.backends or list(settings.RESEARCH_BACKENDS),
        "parameters": preset.parameters,
        "charge_cancelled": preset.charge_cancelled,
        "created_at": now,
        "next_run_at": now,
        "deadline_at": now + timedelta(seconds=time_budget) + QUEUE_PATIENCE,
    }


def _write(who: Principal, run: Run) -> None:
    refusal = _admit(who, run)
    if run.idempotency_key and _is_key_of_chat(who, run):
        raise reused()
    event = QUEUED
    if refusal is not None:
        event = Event("admission_refused", asdict(refusal))
        run.state, run.next_run_at, run.completed_at = State.FAILED, None, run.created_at
        run.error_code, run.error_message = refusal.code, refusal.message
    run.save(force_insert=True)
    moves.append(run, State(run.state), [event], run.event_seq)
    audit_of(who, run).save(force_insert=True)
    if refusal is None:
        ring_when_committed()


def _is_key_of_chat(who: Principal, run: Run) -> bool:
    """Behind the user's account, which a chat under a key locks too: it comes before this look, or sees
    the run."""
    if not run.price:  # else whoever admitted it has locked that
        ledger.lock_account(who.user_id)
    return visible_responses(who).filter(idempotency_key=run.idempotency_key).exists()


def audit_of(who: Principal, run: Run) -> AuditEntry:
    return audit.row(who, "run.started", run.public_id, preset=run.preset, door=run.door)


def ring_when_committed() -> None:
    """Have a worker look at what this transaction starts."""
    transaction.on_commit(lambda: crashpoint("start.committed"))
    ring_after_commit("research.submit")


def _admit(who: Principal, run: Run) -> Refusal | None:
    """Take a place in flight and the price, or say which of the two there is not."""
    if _too_many_in_flight(who):
        return Refusal("rate_limit_exceeded", "too many runs in flight")
    try:
        ledger.reserve(who.user_id, ledger_subject(run.id), run.price, key_id=who.key_id)
    except ledger.InsufficientCredit as error:
        return Refusal("insufficient_quota", str(error) or "credit quota exhausted")
    return None


def _too_many_in_flight(who: Principal) -> bool:
    """Exact across processes: whoever counts holds the user's account row until commit."""
    of_user, of_key = _limits(who)
    if of_user is None and of_key is None:
        return False
    ledger.lock_account(who.user_id)
    return (of_user is not None and live_runs(user_id=who.user_id) >= of_user) or (
        of_key is not None and live_runs(key_id=who.key_id) >= of_key
    )


def _limits(who: Principal) -> tuple[int | None, int | None]:
    """How many runs may be in flight, of the user and through the key; None while no limit is set."""
    if who.key_id is None:
        return User.objects.values_list("parallel_runs", flat=True).get(pk=who.user_id), None
    return ApiKey.objects.values_list("user__parallel_runs", "parallel_runs").get(pk=who.key_id)


def _title(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"
