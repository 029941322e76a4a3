"""The portal's own prompt text, and the policy that a caller's key asks for (proxy-contract §5)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import cast

from django.conf import settings

from portal.services.principal import ChatTerms
from proxy.models.catalog import PromptPattern
from proxy.protocol.clients import Client, compile_whitelist
from proxy.protocol.conversation import Policy, PromptPolicy

LONGEST_PATH = 1024


def policy_of(terms: ChatTerms, *, has_system_text: bool) -> PromptPolicy:
    """The whitelist is read only for those who need it."""
    policy = cast(Policy, terms.prompt_policy)
    rows = _whitelist() if needs_whitelist(terms, has_system_text=has_system_text) else ()
    return PromptPolicy(
        policy, cast(Client, terms.client) if terms.client else None, custom_text(), compile_whitelist(rows)
    )


def _whitelist() -> Iterable[str]:
    return PromptPattern.objects.filter(enabled=True).values_list("pattern", flat=True)


def needs_whitelist(terms: ChatTerms, *, has_system_text: bool) -> bool:
    """Whether `policy_of` asks the database."""
    return has_system_text and terms.prompt_policy == "filter"


def custom_text() -> str:
    """CUSTOM_PROMPTS: the file of that name, as it is now, else the text itself."""
    given: str = settings.CUSTOM_PROMPTS
    if not given or "\n" in given or len(given) > LONGEST_PATH:
        return given
    path = Path(given)
    try:
        state = path.stat()
        return _read(path, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError):
        return given


@lru_cache(maxsize=1)
def _read(path: Path, changed_ns: int, size: int) -> str:
    return path.read_text(encoding="utf-8")
