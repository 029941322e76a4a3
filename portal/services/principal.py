"""Who is asking: the one value every service takes to know whom it serves."""

from __future__ import annotations

from dataclasses import dataclass

from portal.models.keys import Scope
from portal.models.users import User

USER_SCOPES = frozenset({Scope.RESEARCH.value, Scope.CHAT.value, Scope.FILES.value, Scope.MCP.value})


@dataclass(frozen=True, slots=True)
class ChatTerms:
    """How this caller chats: the key's prompt policy and client ("" is detected), whether answers list
    their sources, and how many chats a day the key and the user may start, None while none is set."""

    prompt_policy: str = "filter"
    client: str = ""
    sources_footer: bool = False
    key_daily: int | None = None
    user_daily: int | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, and the API key that speaks for them; no key for sessions and commands.

    `scopes` are what this caller may do: a session may do all that a user may. `is_staff` is an
    admin's right, which a key has by its scope only. The limits are requests per minute, None
    while none is set.
    """

    user_id: int
    scopes: frozenset[str]
    is_staff: bool = False
    key_id: int | None = None
    key_public_id: str = ""
    address: str | None = None
    request_id: str = ""
    user_limit: int | None = None
    key_limit: int | None = None
    capped: bool = False
    """Whether the key has a monthly cap of credits."""
    chat: ChatTerms = ChatTerms()


def principal_of(user: User, *, address: str | None = None, request_id: str = "") -> Principal:
    """A user who speaks for themselves: in a session or through a command."""
    scopes = USER_SCOPES | {Scope.ADMIN.value} if user.is_staff else USER_SCOPES
    return Principal(
        user_id=user.pk,
        scopes=scopes,
        is_staff=user.is_staff,
        address=address,
        request_id=request_id,
        user_limit=user.requests_per_minute,
        chat=ChatTerms(user_daily=user.chats_per_day),
    )
