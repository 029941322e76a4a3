from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from portal.management.base import PlainCommand, credits
from portal.services.errors import Invalid
from portal.services.users import create_user, find_or_make_team, new_password


class Command(PlainCommand):
    help = "Make a user. Without --password-stdin a password is made and shown once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL")
        parser.add_argument("--admin", action="store_true", help="an admin, who may do everything")
        parser.add_argument("--team", metavar="T", help="the team to join, made when there is none")
        parser.add_argument("--password-stdin", action="store_true", help="read it from standard input")
        parser.add_argument("--credits", metavar="N", help="exactly N instead of the plan's allowance")

    @transaction.atomic
    def act(self, **options: Any) -> None:
        given = _password_from_stdin() if options["password_stdin"] else None
        amount = credits(options["credits"]) if options["credits"] is not None else None
        team = find_or_make_team(options["team"]) if options["team"] is not None else None
        password = given or new_password()
        user = create_user(
            options["email"], password=password, is_admin=options["admin"], team=team, credits=amount
        )
        self.say(f"made {'the admin' if user.is_staff else 'the user'} {user.email}")
        if given is None:
            self.say(f"password, shown only now: {password}")


def _password_from_stdin() -> str:
    """The first line, without its end."""
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise Invalid("standard input holds no password")
    return password
