"""How django-allauth behaves here: people log in by email, and join by invitation only."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

from portal.api.auth import client_address


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": "This email and this password do not belong together.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Closed: `portal.pages.invite` makes the user of an invitation (SPEC 2.1)."""
        return False

    def is_safe_url(self, url: str | None) -> bool:
        """Where a log-in may lead: to a page of ours. allauth would take any of ALLOWED_HOSTS, and
        those hold this machine's own names."""
        return url_has_allowed_host_and_scheme(url, allowed_hosts=None)

    def get_client_ip(self, request: HttpRequest) -> str:
        """Whose attempts are counted: the client's, not those of a proxy that we trust, or one who
        guesses would keep everybody out. Without an address (a Unix socket) all are one."""
        return client_address(request.headers, request.META.get("REMOTE_ADDR")) or "unknown"
