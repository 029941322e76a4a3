"""How django-allauth behaves here: people log in by email, and join by invitation only."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Closed: `portal.pages.invite` makes the user of an invitation (SPEC 2.1)."""
        return False
