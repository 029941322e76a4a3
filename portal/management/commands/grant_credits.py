from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from portal.management.base import PlainCommand, credits
from portal.services.credits import grant_to_user
from portal.services.ledger import balance_of
from portal.services.users import find_user
from portal.wire.amounts import plain


class Command(PlainCommand):
    help = "Give a user N credits of their own, which do not end with the month."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL")
        parser.add_argument("credits", metavar="N")

    def act(self, **options: Any) -> None:
        user, amount = find_user(options["email"]), credits(options["credits"])
        grant_to_user(user, amount, reason="granted by command", actor=None)
        left = balance_of(user.pk).available
        self.say(f"gave {user.email} {plain(amount)} credits: {plain(left)} left to spend")
