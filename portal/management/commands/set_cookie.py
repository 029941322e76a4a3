"""`manage.py set_cookie`: the cookie comes from a hidden prompt or standard input, never an argument."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Any

from django.core.management.base import CommandParser

from portal.management.base import PlainCommand
from portal.services import network
from proxy.services.accounts import find_account
from proxy.services.cookie_steps import COOKIE_STEPS
from proxy.services.sessions import put_cookie


class Command(PlainCommand):
    help = "Put in the cookie of a Perplexity web session. It replaces one only when Perplexity accepts it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", metavar="A", help="the account it is for; default: its user's")

    def act(self, **options: Any) -> None:
        name = options["account"]
        account = find_account(name) if name is not None else None
        try:
            mine = put_cookie(self.ask(), account=account)
        finally:
            network.close()
        self.say(f"{mine} is signed in; its tier is {mine.tier}")

    def ask(self) -> str:
        if not sys.stdin.isatty():
            return sys.stdin.read()
        for number, step in enumerate(COOKIE_STEPS, 1):
            self.stderr.write(f"{number}. {step}")
        return getpass("The cookie (not shown): ")
