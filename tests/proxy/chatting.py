"""People with a key who chat, in this process; and what became of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx

from portal.doors import doors
from portal.models.ledger import LedgerEntry
from portal.models.users import User
from portal.services import keys, ledger, users
from portal.services.keys import authenticate_key
from portal.services.principal import Principal
from proxy.models.chats import ChatTurn
from tests.api_client import Client
from tests.visit import Visit

PATH = "/v1/chat/completions"
Messages = str | Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Chatter:
    user: User
    key: str
    client: Client

    @property
    def principal(self) -> Principal:
        who = authenticate_key(self.key, "127.0.0.1")
        assert who is not None
        return who

    def chat(self, said: Messages = "Why is the sky blue?", **fields: Any) -> httpx.Response:
        return self.client.post(PATH, json=request(said, **fields))

    def visit(self, said: Messages = "Why is the sky blue?", **fields: Any) -> Visit:
        """The same on a running loop, by a client that can leave."""
        return Visit(doors, "POST", PATH, request(said, **fields), key=self.key)

    @property
    def spent(self) -> str:
        """Credits that are gone of the ten there were, and those that are held: `0.1 0`."""
        balance = ledger.balance_of(self.user.pk)
        return f"{(10 - balance.available - balance.reserved).normalize():f} {balance.reserved.normalize():f}"

    @property
    def turn(self) -> ChatTurn:
        """Their last."""
        return ChatTurn.objects.filter(user=self.user).latest("created_at")


def chatter(credits: int | str = 10, **of_key: Any) -> Chatter:
    user = users.create_user(f"{uuid4().hex[:12]}@example.org", credits=Decimal(credits))
    _, text = keys.create_key(user, name="test", **of_key)
    return Chatter(user, text, Client(doors, text))


def request(said: Messages, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": said}] if isinstance(said, str) else list(said)
    return {"model": "gpt", "messages": messages, **fields}


def say(text: str) -> str:
    """A marker that makes the sandbox answer exactly this."""
    return f"[sandbox:say={base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')}]"


def events(body: bytes | str) -> list[Any]:
    """The JSON of each record; `[DONE]` and comments as they are."""
    text = body.decode() if isinstance(body, bytes) else body
    records = [record for record in text.split("\n\n") if record]
    return [
        record if not record.startswith("data: ") or record == "data: [DONE]" else json.loads(record[6:])
        for record in records
    ]


def text_of(body: bytes | str) -> str:
    deltas = [
        chunk["choices"][0]["delta"]
        for chunk in events(body)
        if isinstance(chunk, dict) and chunk.get("choices")
    ]
    return "".join(delta.get("content") or "" for delta in deltas)


def error_of(response: httpx.Response) -> tuple[int, str | None, str | None, str | None]:
    """Status, type, param and code."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "sandbox-" not in response.text
    return response.status_code, error["type"], error["param"], error["code"]


def kinds(who: Chatter) -> list[str]:
    """Of the ledger entries for their chats, in order."""
    entries = LedgerEntry.objects.filter(account__user=who.user, subject__startswith="chat:")
    return list(entries.order_by("id").values_list("kind", flat=True))
