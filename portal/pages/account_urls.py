"""Which of django-allauth's pages there are.

It brings pages for all that an account can do on the open internet. Here an email is the name by
which admins, commands and the audit log know a person: nobody gives themselves another one, and
there is no mail to prove one with. So pages are opened one by one, and whatever allauth adds is
not there.
"""

from __future__ import annotations

from allauth.account.urls import urlpatterns as pages
from django.urls import URLPattern
from django.views.decorators.http import require_safe

OPEN = {
    "account_change_password",
    "account_inactive",
    "account_login",
    "account_logout",
    "account_reauthenticate",
}
TOLD = {"account_reset_password", "account_signup"}
"""Pages that only tell how it is done here: nothing can be sent to them."""


def _told(page: URLPattern) -> URLPattern:
    return URLPattern(page.pattern, require_safe(page.callback), name=page.name)


urlpatterns = [page if page.name in OPEN else _told(page) for page in pages if page.name in OPEN | TOLD]
