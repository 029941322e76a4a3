"""The dashboard's chats: a person asks, goes on, stops, renames, deletes.

The question is let in here, in one transaction; a worker answers it (answering.py), so that it
survives a closed tab. What was said before goes along, from the conversation's own turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.services import audit
from portal.services.principal import Principal
from portal.services.queue import ring_after_commit
from portal.wire.errors import BadRequest, NotFound, not_found
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn, Conversation
from proxy.protocol.chat import ChatRequest
from proxy.protocol.chat_messages import ChatMessage
from proxy.protocol.conversation import LONGEST_QUERY
from proxy.queries import find_conversation, turns_of
from proxy.services.accounts import pool
from proxy.services.chat import open_turn, prepare_chat
from proxy.services.settling import end_turn

DOOR = "page"
ANSWER = "proxy.answer_turn"
LONGEST_TITLE = 120
State = ChatTurn.State


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person sends. `turn_id` is the form's own: a form that is sent twice asks once."""

    turn_id: UUID
    text: str
    model: str
    thinking: bool = False


def ask(who: Principal, wish: Wish, conversation_id: UUID | None = None) -> ChatTurn:
    """An open turn that a worker will answer, in a new conversation or as the next of an old one.

    Raises NotFound, BadRequest, and what `open_turn` raises; nothing is kept then.
    """
    if sent := _sent_before(who, wish):
        return sent
    earlier = turns_of(find_conversation(who, conversation_id)) if conversation_id else []
    if any(turn.state == State.OPEN for turn in earlier):
        raise _still_answering()
    request = request_of(earlier, wish.text, wish.model, thinking=wish.thinking)
    chat_id = conversation_id or uuid4()
    try:
        question = replace(prepare_chat(who, request, DOOR, chat_id), turn_id=wish.turn_id)
    except BadRequest as problem:
        raise _too_long_by_now(problem) if earlier else problem from None
    try:
        with transaction.atomic():
            _touch(who, chat_id, wish.text, is_new=conversation_id is None)
            open_turn(question)
            ring_after_commit(ANSWER, str(wish.turn_id))
    except IntegrityError:
        # The same form, or another tab, was faster.
        if sent := _sent_before(who, wish):
            return sent
        raise _still_answering() from None
    return ChatTurn.objects.get(pk=wish.turn_id)


def request_of(earlier: Iterable[ChatTurn], text: str, model: str, *, thinking: bool) -> ChatRequest:
    """The question with what was said before. Turns without a word of answer are as if never asked."""
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise BadRequest("Write a message first.", param="message")
    if len(text) > LONGEST_QUERY:
        told = f"The message has {len(text):,} characters; at most {LONGEST_QUERY:,} can be sent."
        raise BadRequest(told, param="message", code="context_length_exceeded")
    said: list[ChatMessage] = []
    for turn in earlier:
        if turn.answer.strip():
            said += [ChatMessage("user", turn.question), ChatMessage("assistant", turn.answer)]
    said.append(ChatMessage("user", text))
    return ChatRequest(model, tuple(said), stream=True, thinking=thinking)


def stop(who: Principal, conversation_id: UUID) -> bool:
    """Have the answer that is being written stopped; False when there is none any more.

    Its worker notices within a second. What no worker has begun ends at once, and costs nothing.
    """
    conversation = find_conversation(who, conversation_id)
    turn = ChatTurn.objects.filter(conversation=conversation, state=State.OPEN).first()
    if turn is None:
        return False
    rows = ChatTurn.objects.filter(pk=turn.pk, state=State.OPEN)
    with transaction.atomic():
        asked = rows.filter(stop_asked_at=None).update(stop_asked_at=timezone.now())
        if asked:
            audit.record(who, "chat.stop_asked", turn.subject)
    end_turn(turn, State.CANCELLED, only_if={"claimed_at": None})
    return True


def rename(who: Principal, conversation_id: UUID, title: str) -> None:
    """Raises NotFound, and BadRequest for no title."""
    conversation = find_conversation(who, conversation_id)
    if not title.strip():
        raise BadRequest("Give the chat a name.", param="title")
    Conversation.objects.filter(pk=conversation.pk).update(title=title_of(title))


def hide(who: Principal, conversation_id: UUID) -> None:
    """Deleted for the person; the ledger keeps what it knows. An answer under way is stopped."""
    conversation = find_conversation(who, conversation_id)
    stop(who, conversation_id)
    with transaction.atomic():
        Conversation.objects.filter(pk=conversation.pk).update(hidden_at=timezone.now())
        audit.record(who, "chat.deleted", f"conversation:{conversation.pk}")


def title_of(text: str) -> str:
    """The first words, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"


def readiness() -> str:
    """What keeps every chat from being answered: `unconfigured`, `signed_out`, or nothing ("")."""
    healths = set(pool().filter(enabled=True).exclude(jar="").values_list("health", flat=True))
    if not healths:
        return "unconfigured"
    return "signed_out" if healths == {WebAccount.Health.EXPIRED} else ""


def _touch(who: Principal, chat_id: UUID, text: str, *, is_new: bool) -> None:
    now = timezone.now()
    if is_new:
        Conversation.objects.create(
            id=chat_id, user_id=who.user_id, title=title_of(text), created_at=now, updated_at=now
        )
    elif not Conversation.objects.filter(pk=chat_id, hidden_at=None).update(updated_at=now):
        raise not_found()


def _sent_before(who: Principal, wish: Wish) -> ChatTurn | None:
    """Raises NotFound when somebody else has a turn of this id."""
    turn = ChatTurn.objects.filter(pk=wish.turn_id).select_related("conversation").first()
    if turn is not None and (turn.user_id != who.user_id or turn.conversation is None):
        raise NotFound("There is no chat of this name.")
    return turn


def _too_long_by_now(problem: BadRequest) -> BadRequest:
    """A talk that has grown too long ends with words about what to do."""
    if problem.code != "context_length_exceeded":
        return problem
    return BadRequest(f"{problem.message} Start a new chat.", param="message", code=problem.code)


def _still_answering() -> BadRequest:
    return BadRequest("The last answer is still being written: wait for it, or stop it.", code="answering")
