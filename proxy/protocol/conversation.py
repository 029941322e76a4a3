"""From messages to the one question the upstream takes, and the thread it may continue.

proxy-contract §§5-6, with what §17.12, .35 and .36 ask for: keys of threads name the user and
everything that shapes an answer, a key can pin its client, and what was dropped is told.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from portal.wire.errors import BadRequest
from proxy.protocol.clients import Client, allowed_lines, detect, is_prompt_block
from proxy.protocol.notices import without_notices

LONGEST_QUERY = 96_000
"""Characters of `query_str`: nothing is ever cut silently."""
SEARCH_LINE = "Web search is built in: always use its results when you answer."
DROPPED_HEADER = "x-sonde-dropped"

Policy = Literal["filter", "forward", "custom"]
Role = Literal["system", "developer", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message as text: what was attached to it is a marker in the text."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class PromptPolicy:
    """How a key treats system prompts.

    `filter`: LobeHub's prompt is replaced by `custom_text`, any other is reduced to the lines of
    `whitelist`. `forward`: it goes through as it is. `custom`: `custom_text` for every client.
    `client` pins what would be detected.
    """

    policy: Policy = "filter"
    client: Client | None = None
    custom_text: str = ""
    whitelist: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """What of the caller's words does not reach the upstream."""

    system_lines: int = 0
    user_messages: int = 0
    assistant_messages: int = 0

    @property
    def header(self) -> str:
        """The value of `x-sonde-dropped`; "" when all went through."""
        counts = (
            ("system-lines", self.system_lines),
            ("user-messages", self.user_messages),
            ("assistant-messages", self.assistant_messages),
        )
        return ", ".join(f"{name}={count}" for name, count in counts if count)


@dataclass(frozen=True, slots=True)
class Conversation:
    """`history` alternates no further than its client did; `query` is the last user message."""

    client: Client
    query: str
    history: tuple[Message, ...] = ()
    instructions: tuple[str, ...] = ()
    dropped: Dropped = Dropped()
    may_continue: bool = False
    """Whether a thread upstream can stand for the history: nothing but the turns shaped it."""
    attached_before: tuple[str, ...] = ()
    """Fingerprints of what the history's messages brought along, and `attached` of what the query does."""
    attached: tuple[str, ...] = ()

    def whole(self, param: str = "messages") -> str:
        """`query_str` with everything in it: a JSON document. Raises `BadRequest` when too long."""
        document: dict[str, object] = {"query": self.query}
        if self.instructions:
            document["instructions"] = list(self.instructions)
        if self.history:
            document["history"] = [{"role": turn.role, "content": turn.text} for turn in self.history]
        return _fitting(json.dumps(document, ensure_ascii=False), param)

    def question(self, param: str = "messages") -> str:
        """`query_str` that continues a thread: the question alone, as plain text."""
        return _fitting(self.query, param)


def _fitting(query: str, param: str) -> str:
    if len(query) > LONGEST_QUERY:
        raise BadRequest(
            f"The conversation has {len(query):,} characters; at most {LONGEST_QUERY:,} can be sent.",
            param=param,
            code="context_length_exceeded",
        )
    return query


def prepare(
    messages: Sequence[Message],
    policy: PromptPolicy,
    extra_instructions: tuple[str, ...] = (),
    param: str = "messages",
) -> Conversation:
    """The conversation as the upstream gets it. Raises `BadRequest` without a final user message."""
    system_text = "\n".join(
        message.text
        for message in messages
        if message.role in ("system", "developer") and message.text.strip()
    )
    client = policy.client or detect(system_text, (message.role for message in messages))
    drops_blocks = client == "lobehub" and policy.policy != "forward"
    turns, user_dropped, assistant_dropped = _turns(messages, drops_blocks=drops_blocks)
    if not turns or turns[-1].role != "user":
        raise BadRequest("The last message must be a user message that is not empty.", param=param)
    instructions, lines_dropped = _instructions(system_text, client, policy)
    instructions += extra_instructions
    return Conversation(
        client,
        turns[-1].text,
        turns[:-1],
        instructions,
        Dropped(lines_dropped, user_dropped, assistant_dropped),
        may_continue=client == "generic" and not (system_text or instructions) and len(turns) > 1,
    )


def _turns(messages: Iterable[Message], *, drops_blocks: bool) -> tuple[tuple[Message, ...], int, int]:
    """User and assistant messages as they count, and how many of each did not."""
    spoken: list[Message] = []
    for message in messages:
        if message.role in ("user", "assistant"):
            text = without_notices(message.text) if message.role == "assistant" else message.text
            if text.strip():
                spoken.append(Message(message.role, text))
    last_user = max((at for at, turn in enumerate(spoken) if turn.role == "user"), default=-1)
    turns: list[Message] = []
    users = assistants = 0
    for at, turn in enumerate(spoken):
        if turn.role == "user" and drops_blocks and at < last_user and is_prompt_block(turn.text):
            users += 1
            continue
        if turn.role == "assistant" and turns and turns[-1].role == "assistant":
            turns.pop()
            assistants += 1
        turns.append(turn)
    return tuple(turns), users, assistants


def _instructions(system_text: str, client: Client, policy: PromptPolicy) -> tuple[tuple[str, ...], int]:
    custom = (policy.custom_text,) if policy.custom_text.strip() else ()
    lines = sum(1 for line in system_text.splitlines() if line.strip())
    if policy.policy == "forward":
        return ((system_text,) if system_text else ()), 0
    if policy.policy == "custom" or client == "lobehub":
        return custom, lines
    if not system_text:
        return (), 0
    kept, dropped = allowed_lines(system_text, policy.whitelist)
    return (*kept, SEARCH_LINE), dropped


@dataclass(frozen=True, slots=True)
class Scope:
    """What two conversations must share, besides their turns, to share a thread."""

    user: str
    account: str
    preference: str
    sources: tuple[str, ...]
    language: str
    recency: str = ""


def history_digest(turns: Iterable[Message]) -> str:
    """16 hex digits over the turns alone, as the original made its keys (proxy-contract §6)."""
    pairs = [[turn.role, turn.text.strip()] for turn in turns]
    return hashlib.sha256(_compact(pairs)).hexdigest()[:16]


def continuity_key(scope: Scope, turns: Iterable[Message], attached: Sequence[str] = ()) -> str:
    """64 hex digits: where the thread that holds exactly these turns, with what came along, is filed."""
    pairs = [[turn.role, turn.text.strip()] for turn in turns]
    owner = [scope.user, scope.account, scope.preference, sorted(scope.sources), scope.language]
    owner += [scope.recency] if scope.recency else []
    held = [owner, pairs, *([list(attached)] if attached else [])]
    return hashlib.sha256(_compact(held)).hexdigest()


def key_before(scope: Scope, conversation: Conversation) -> str:
    """Where the thread that this conversation continues would be."""
    return continuity_key(scope, conversation.history, conversation.attached_before)


def key_after(scope: Scope, conversation: Conversation, answer: str) -> str:
    """Where to file the thread for the next turn; `answer` is cleaned and has no notices."""
    asked = Message("user", conversation.query)
    turns = (*conversation.history, asked, Message("assistant", answer))
    return continuity_key(scope, turns, (*conversation.attached_before, *conversation.attached))


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
