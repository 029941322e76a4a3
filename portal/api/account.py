"""`GET /api/account`: who the caller is and what they can spend (SPEC 10.21)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.base import PortalView, caller
from portal.services.users import account_of
from portal.wire.amounts import json_number


class AccountView(PortalView):
    """For a key of any scope, or a session. `balance` is what is left to spend, in credits."""

    def get(self, request: Request) -> Response:
        account = account_of(caller(request).user_id)
        balance = account.balance
        credits = {"balance": json_number(balance.available), "reserved": json_number(balance.reserved)}
        return Response({"email": account.email, "team": account.team or None, "credits": credits})
