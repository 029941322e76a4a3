"""The end of a chat: one transaction, once, whatever happened.

Nothing delivered → nothing charged, and the day's count goes back. Any text delivered → the price of
the turn, also when the client left (SPEC 2.3). A turn whose process died is closed by the sweep.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from portal.services import ledger
from portal.services.limits import uncount_chat
from portal.services.rows import run
from portal.wire.errors import Problem
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.protocol import notices
from proxy.protocol.chat_stream import usage
from proxy.protocol.delta import Done, Fault
from proxy.protocol.model_table import label_of
from proxy.services import continuity, glance
from proxy.services.accounts import note_fault, note_success
from proxy.services.catalog import all_models
from proxy.services.chat import ChatPlan, Question
from proxy.services.response_rows import BACKGROUND, DOOR, end_with_turn, that_can_go_on

log = logging.getLogger(__name__)

State = ChatTurn.State
PAUSES = (0.2, 1.0, 0.0)
"""Seconds between the tries to settle while the database is away."""
A_SWEEP = 200
DIED = "The portal stopped while it was answering."


@dataclass(slots=True)
class Outcome:
    """How far an answer came. `delivered`: text of it went to the caller.

    `fault` is the last one, when nobody has noted it against the account yet; `problem` is what the
    caller was told. Neither of them nor `done`: the caller left. `done` with a `problem`: the upstream
    answered, but not as it was told to (bridge.py).
    """

    delivered: bool = False
    first_text_at: datetime | None = None
    text: str = ""
    """As it went to the caller: cleaned, without notices."""
    reasoning: list[str] = field(default_factory=list)
    done: Done | None = None
    fault: Fault | None = None
    problem: Problem | None = None

    @property
    def state(self) -> ChatTurn.State:
        if self.problem:
            return State.FAILED
        return State.DELIVERED if self.done else State.CANCELLED


@dataclass(frozen=True, slots=True)
class Settled:
    """What readers are told of it: the name of the model that answered, and what stands behind the text."""

    answered_by: str = ""
    notices: tuple[str, ...] = ()


Record = Callable[[Settled], None]
"""What else belongs to the end: called in its transaction, again when that is tried again."""


class Superseded(Exception):
    """Raised by a `Record`: the turn is somebody else's by now, so nothing of this end is kept."""


def settle(plan: ChatPlan, outcome: Outcome, record: Record | None = None) -> Settled:
    """Close the turn, if nobody has. Tried again while the database is away; then the sweep has it."""
    for pause in PAUSES:
        try:
            return _settle(plan, outcome, record)
        except Superseded:
            return Settled()
        except (OperationalError, InterfaceError) as error:
            log.warning("%s was not settled: %s", plan.question.subject, type(error).__name__)
            time.sleep(pause)
    return Settled()


@transaction.atomic
def _settle(plan: ChatPlan, outcome: Outcome, record: Record | None) -> Settled:
    question, account_id = plan.question, plan.session.account_id
    account = None
    if outcome.done:
        account = note_success(account_id, counted=question.model.counted, opened_at=plan.opened_at)
    elif outcome.fault:
        note_fault(account_id, outcome.fault, plan.session.jar_version)
        transaction.on_commit(glance.forget)
    # By its door: a worker may have taken over a stream whose process was taken for dead.
    turn = ChatTurn.objects.filter(pk=question.turn_id, state=State.OPEN, door=question.door)
    if not turn.update(**ending_of(plan, outcome)):
        return Settled()
    _close_money(question, delivered=outcome.delivered)
    whole = outcome.done if outcome.problem is None else None
    if whole and (thread := thread_of(plan, whole, outcome.text)):
        run(continuity.keeping([thread]))
    settled = told(plan, whole, account) if whole else Settled()
    if record:
        record(settled)
    return settled


def thread_of(plan: ChatPlan, done: Done, text: str) -> continuity.Row | None:
    """Where a whole answer stands upstream, if the next question may continue there."""
    question = plan.question
    if not done.thread.entry or not continuity.is_fileable(question.conversation):
        return None
    account_id = plan.session.account_id
    return continuity.thread_values(question.filing, question.conversation, text, account_id, done.thread)


def _close_money(question: Question, *, delivered: bool) -> None:
    if question.price:
        ledger.close(question.subject, question.price if delivered else Decimal(0))
    if not delivered:
        uncount_chat(question.who.user_id, question.who.key_id, question.asked_at)


def ending_of(plan: ChatPlan, outcome: Outcome) -> dict[str, Any]:
    """What becomes of the turn's row."""
    estimate = usage(len(plan.query), outcome.text)
    problem, done = outcome.problem, outcome.done
    ending: dict[str, Any] = {
        "state": outcome.state,
        "lease_until": None,
        "ended_at": timezone.now(),
        "first_token_at": outcome.first_text_at,
        "prompt_tokens": estimate["prompt_tokens"],
        "completion_tokens": estimate["completion_tokens"],
        "answered_by": done.model.preference[:80] if done and done.model else "",
    }
    if problem:
        ending |= {"error_code": (problem.code or problem.type)[:40], "error_message": problem.message[:400]}
    if plan.question.conversation_id:
        ending |= {"answer": outcome.text, "reasoning": "\n".join(outcome.reasoning)}
        if done:
            ending["sources"] = [asdict(source) for source in done.sources]
            ending["citations"] = [asdict(citation) for citation in done.citations]
    return ending


def told(plan: ChatPlan, done: Done, account: WebAccount | None) -> Settled:
    """What readers of a whole answer are told; `account` is as the answer leaves it."""
    model = plan.question.model
    lines: list[str] = []
    label = model.label or model.id
    if done.model and done.model.substituted:
        label = label_of(all_models(), done.model.preference)
        lines.append(notices.substituted(label))
    if model.counted and plan.remaining is not None:
        after = account.remaining_pro if account else None
        left = notices.remaining(None if after is None else after + 1, after)
        lines += [left] if left else []
    return Settled(label if done.model else "", tuple(lines))


def sweep_turns() -> int:
    """Close what processes that died have left open; how many turns that were."""
    expired = ChatTurn.objects.filter(state=State.OPEN, lease_until__lt=timezone.now())
    # Of those a worker takes over (background.ring_waiting).
    expired = expired.exclude(door=BACKGROUND).exclude(door=DOOR, pk__in=that_can_go_on().values("pk"))
    columns = ("user_id", "key_id", "door", "created_at", "price")
    turns = list(expired.order_by("lease_until").only(*columns)[:A_SWEEP])
    return sum(_bury(turn) for turn in turns)


def _bury(turn: ChatTurn) -> bool:
    dead = {"lease_until__lt": timezone.now()}
    return end_turn(turn, State.FAILED, Problem(DIED), only_if=dead)


@transaction.atomic
def end_turn(
    turn: ChatTurn,
    state: ChatTurn.State,
    problem: Problem | None = None,
    *,
    only_if: Mapping[str, object] = MappingProxyType({}),
) -> bool:
    """End an open turn that nobody relays (any more); whether it was open, and as `only_if` says.

    What was shown of its answer, in the dashboard or by events that are written, was delivered.
    """
    rows = ChatTurn.objects.filter(pk=turn.pk, state=State.OPEN, **only_if)
    ending: dict[str, Any] = {"state": state, "lease_until": None, "ended_at": timezone.now()}
    if problem:
        ending |= {"error_code": (problem.code or problem.type)[:40], "error_message": problem.message[:400]}
    if not rows.update(**ending):
        return False
    shown = ChatTurn.objects.filter(pk=turn.pk).exclude(first_token_at=None).exists()
    ledger.close(turn.subject, turn.price if shown else Decimal(0))
    if not shown:
        uncount_chat(turn.user_id, turn.key_id, turn.created_at)
    if turn.door in (DOOR, BACKGROUND):
        end_with_turn(turn.pk, problem)
    return True
