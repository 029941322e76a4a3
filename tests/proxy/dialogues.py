"""People who chat in the dashboard, in this process; a worker answers when the test says so."""

from __future__ import annotations

from uuid import UUID, uuid4

from portal.models.users import User
from portal.services import ledger
from portal.services.principal import Principal, principal_of
from proxy.models.chats import ChatTurn
from proxy.services import answering, dialogue
from proxy.services.dialogue import Wish


def wish(text: str = "Why is the sky blue?", model: str = "gpt", *, thinking: bool = False) -> Wish:
    return Wish(uuid4(), text, model, thinking)


def ask(
    user: User, text: str = "Why is the sky blue?", chat: UUID | None = None, model: str = "gpt"
) -> ChatTurn:
    """Let in, and not yet answered."""
    return dialogue.ask(me(user), wish(text, model), chat)


def talk(
    user: User, text: str = "Why is the sky blue?", chat: UUID | None = None, model: str = "gpt"
) -> ChatTurn:
    """Asked and answered."""
    turn = ask(user, text, chat, model)
    answering.answer_turn(turn.pk)
    return fresh(turn)


def fresh(turn: ChatTurn) -> ChatTurn:
    return ChatTurn.objects.select_related("conversation").get(pk=turn.pk)


def me(user: User) -> Principal:
    return principal_of(user)


def spent(user: User) -> str:
    """Credits that are gone of the ten there were, and those that are held: `0.1 0`."""
    balance = ledger.balance_of(user.pk)
    return f"{(10 - balance.available - balance.reserved).normalize():f} {balance.reserved.normalize():f}"
