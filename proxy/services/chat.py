"""A chat, from the question to its open turn: every cheap check, then one transaction.

    prepare_chat   model, policy, length: nothing is written, nothing upstream is touched
    open_turn      account, reservation, daily count, turn, audit: all of it or nothing
    queue_turn     the same without an account, which `place_turn` gives it later
    Relay          (relay.py) asks, fails over, and hands on what comes
    settle         (settling.py) turn, ledger, thread, account: when it is over, however it ends

Lock order of every transaction: account, turn, ledger, windows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from portal.services import audit, ledger
from portal.services.limits import count_chat
from portal.services.principal import Principal
from portal.services.upstreams import uses_sandbox
from portal.wire.errors import Problem, RateLimited, Unavailable
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.protocol.chat import ChatRequest
from proxy.protocol.conversation import Conversation, prepare
from proxy.protocol.delta import Fault, FaultKind, Thread
from proxy.protocol.model_table import Model
from proxy.protocol.verdicts import problem_of
from proxy.protocol.web_request import Ask
from proxy.services import continuity, glance
from proxy.services.accounts import (
    is_anyone_busy,
    note_fault,
    pool,
    session_of,
    take_account,
    why_none,
)
from proxy.services.attachments import Enclosure, enclose
from proxy.services.bridge import Judge, conversation_of
from proxy.services.catalog import Offer, find_model
from proxy.services.continuity import Filing, Found
from proxy.services.leases import lease_end
from proxy.services.prompts import policy_of
from proxy.upstream.web import Session


class Busy(Unavailable):
    """Nothing is wrong but that every account has its hands full: waiting helps."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question that may be asked. `whole` is `query_str` with the whole conversation in it.

    With `conversation_id` it belongs to a chat of the dashboard, and its text is kept.
    """

    turn_id: UUID
    who: Principal
    request: ChatRequest
    conversation: Conversation
    whole: str
    model: Model
    price: Decimal
    door: str
    asked_at: datetime
    conversation_id: UUID | None = None
    enclosures: tuple[Enclosure, ...] = ()
    """What is attached, of the whole conversation."""
    is_once: bool = False
    """It comes under an idempotency key, which runs may have as well: free or not, it locks its user's
    account, behind which each looks at the other."""

    @property
    def subject(self) -> str:
        """Of its ledger entries."""
        return f"chat:{self.turn_id}"

    @property
    def is_plain(self) -> bool:
        """Whether it may be opened and settled together with others (together.py)."""
        terms = self.who.chat
        is_limited = self.who.capped or terms.key_daily is not None or terms.user_daily is not None
        return self.conversation_id is None and not is_limited

    @property
    def preference(self) -> str:
        return self.model.preference_for(thinking=self.request.thinking)

    @property
    def filing(self) -> Filing:
        request = self.request
        return Filing(
            self.who.user_id, self.preference, request.sources, request.language, request.recency or ""
        )


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """An open turn: whom to ask, as whom, and which thread it continues, if any.

    `remaining` are the account's uses as they were, None where unknown.
    """

    question: Question
    session: Session
    opened_at: datetime
    remaining: int | None = None
    follows: Thread | None = None

    @property
    def query(self) -> str:
        """`query_str` as it goes out."""
        asked = self.question
        return asked.conversation.question() if self.follows else asked.whole

    @property
    def ask(self) -> Ask:
        request = self.question.request
        return Ask(
            self.query,
            self.question.preference,
            self.question.model.mode,
            request.sources,
            request.language,
            settings.UPSTREAM_TIMEZONE,
            settings.PPLX_API_VERSION,
            follows=self.follows,
            recency=request.recency,
        )


def open_chat(
    who: Principal, request: ChatRequest, door: str, conversation_id: UUID | None = None
) -> ChatPlan:
    """Both steps at once. Raises what they raise."""
    return open_turn(prepare_chat(who, request, door, conversation_id))


def prepare_chat(
    who: Principal,
    request: ChatRequest,
    door: str,
    conversation_id: UUID | None = None,
    *,
    extra_instructions: tuple[str, ...] = (),
    param: str = "messages",
    inherited: Sequence[Enclosure] = (),
    offer: Offer | None = None,
) -> Question:
    """Raises BadRequest, TooLarge, ModelNotAvailable. `param` is the field that brought the messages,
    `inherited` what came with those of earlier responses; without an `offer` the models are read for
    this question alone."""
    priced = find_model(request.model, offer)
    enclosed = enclose(who, request, inherited)
    request = enclosed.request
    if request.bridge:
        conversation, whole = conversation_of(request.bridge), request.bridge.query
    else:
        has_system_text = any(message.role in ("system", "developer") for message in request.messages)
        policy = policy_of(who.chat, has_system_text=has_system_text)
        conversation = enclosed.attached_to(prepare(request.texts, policy, extra_instructions, param))
        whole = conversation.whole(param)
    return Question(
        uuid4(),
        who,
        request,
        conversation,
        whole,
        priced.model,
        priced.price,
        door,
        timezone.now(),
        conversation_id,
        enclosed.enclosures,
    )


def judge_of(question: Question) -> Judge | None:
    """What the relay asks about the answer to a question with functions."""
    bridge = question.request.bridge
    return Judge(bridge, question.subject) if bridge else None


def open_turn(question: Question) -> ChatPlan:
    """Take an account and the price. Raises Busy, Unavailable, RateLimited."""
    found = _thread_of(question)
    try:
        with transaction.atomic():
            account = _take(question, (), found.account_id if found else None)
            if account is not None:
                return _write(question, account, found)
    except ledger.InsufficientCredit as error:
        raise _penniless(error) from None
    raise _none_left(question, (), None)


def queue_turn(question: Question) -> None:
    """Take the price now, and an account when a worker has time for it (`place_turn`).

    Raises Unavailable and RateLimited, like `open_turn`; that everybody is busy is no reason.
    """
    model = question.model
    if not is_anyone_busy(tier_needed=model.needs, counted=model.counted):
        raise why_none(tier_needed=model.needs, counted=model.counted)
    try:
        _insert(question, None, sandbox=uses_sandbox())
    except ledger.InsufficientCredit as error:
        raise _penniless(error) from None


def place_turn(question: Question) -> ChatPlan:
    """Give a queued turn its account. Raises Busy, Unavailable, RateLimited."""
    found = _thread_of(question)
    with transaction.atomic():
        account = _take(question, (), found.account_id if found else None)
        if account is not None:
            plan = plan_with(question, account, found)
            turn = ChatTurn.objects.filter(pk=question.turn_id, state=ChatTurn.State.OPEN)
            turn.update(account=account, sandbox=plan.session.upstream.sandbox)
            return plan
    raise _none_left(question, (), None)


def plan_again(question: Question, turn: ChatTurn, account: WebAccount) -> ChatPlan:
    """The plan of a turn that another process has opened, for `question`, which is the same."""
    same = replace(question, turn_id=turn.pk, price=turn.price, asked_at=turn.created_at)
    return plan_with(same, account, _thread_of(same))


def move_turn(plan: ChatPlan, fault: Fault | None, tried: Collection[int]) -> ChatPlan:
    """Ask another account than the ones `tried`, since the last one ended in `fault`.

    That is noted once: pass None when asking again. The next account gets the whole conversation.
    Raises Busy, or what the caller is to be told when there is no other account.
    """
    if fault is not None:
        note_fault(plan.session.account_id, fault, plan.session.jar_version)
        glance.forget()
    question = plan.question
    with transaction.atomic():
        account = _take(question, tried)
        if account is not None:
            # By its door: a worker may have taken it over from a process that was taken for dead.
            turn = ChatTurn.objects.filter(pk=question.turn_id, state=ChatTurn.State.OPEN, door=question.door)
            turn.update(account=account, lease_until=lease_end())
            return plan_with(question, account)
    raise _none_left(question, tried, fault)


def ask_anew(plan: ChatPlan) -> ChatPlan:
    """The thread was refused: the same account is asked with the whole conversation."""
    question = plan.question
    continuity.forget_thread(question.filing, question.conversation, plan.session.account_id)
    return replace(plan, follows=None)


def with_latest_cookies(plan: ChatPlan) -> ChatPlan:
    """The same ask with the account's cookies as they are now: another answer may have brought new ones."""
    account = WebAccount.objects.filter(pk=plan.session.account_id).exclude(jar="").first()
    return plan if account is None else replace(plan, session=session_of(account))


def _thread_of(question: Question) -> Found | None:
    if not question.conversation.may_continue:
        return None
    accounts = pool().filter(enabled=True).values_list("pk", flat=True)
    return continuity.find_thread(question.filing, question.conversation, accounts)


def _take(question: Question, tried: Collection[int], preferred: int | None = None) -> WebAccount | None:
    model = question.model
    return take_account(tier_needed=model.needs, counted=model.counted, excluded=tried, preferred=preferred)


def _none_left(question: Question, tried: Collection[int], fault: Fault | None) -> Problem:
    model = question.model
    if is_anyone_busy(tier_needed=model.needs, counted=model.counted, excluded=tried):
        message = "Every Perplexity session is busy: try again in a moment."
        return Busy(message, headers={"Retry-After": "2"})
    if fault is None or fault.kind is FaultKind.QUOTA:
        return why_none(tier_needed=model.needs, counted=model.counted)
    return problem_of(fault)


def _penniless(error: ledger.InsufficientCredit) -> RateLimited:
    return RateLimited(
        str(error) or "Not enough credit is left for this chat.",
        code="insufficient_quota",
        headers={"x-should-retry": "false"},
    )


def _write(question: Question, account: WebAccount, found: Found | None) -> ChatPlan:
    """Everything that an open turn consists of. The account is locked."""
    plan = plan_with(question, account, found)
    _insert(question, account, sandbox=plan.session.upstream.sandbox)
    return plan


@transaction.atomic
def _insert(question: Question, account: WebAccount | None, *, sandbox: bool) -> None:
    who = question.who
    account_id = account.pk if account else None
    ChatTurn(**turn_values(question, account_id, sandbox=sandbox)).save(force_insert=True)
    if question.is_once and not question.price:
        ledger.lock_account(who.user_id)
    ledger.reserve(who.user_id, question.subject, question.price, key_id=who.key_id)
    count_chat(who)
    audit.record(who, "chat.started", question.subject, model=question.model.id, door=question.door)


def turn_values(question: Question, account_id: int | None, *, sandbox: bool) -> dict[str, Any]:
    """What the columns of a question's open turn hold."""
    who = question.who
    return {
        "id": question.turn_id,
        "user_id": who.user_id,
        "key_id": who.key_id,
        "account_id": account_id,
        "conversation_id": question.conversation_id,
        "door": question.door,
        "model": question.model.id,
        "thinking": question.request.thinking,
        "price": question.price,
        "lease_until": lease_end(),
        "question": question.conversation.query if question.conversation_id else "",
        "sandbox": sandbox,
        "created_at": question.asked_at,
    }


def plan_with(question: Question, account: WebAccount, found: Found | None = None) -> ChatPlan:
    """The plan of a question that `account` is to answer, in the thread `found` if that is its own."""
    follows = found.thread if found and found.account_id == account.pk else None
    return ChatPlan(question, session_of(account), timezone.now(), account.remaining_pro, follows)
