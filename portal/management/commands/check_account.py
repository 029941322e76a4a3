from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from portal.management.base import PlainCommand
from portal.services import network
from proxy.models.accounts import WebAccount
from proxy.services.accounts import find_account, pool
from proxy.services.keepalive import check_account


class Command(PlainCommand):
    help = "Ask Perplexity about one web session, or all. Exits with 1 when one is not signed in."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", metavar="ACCOUNT", nargs="?", help="default: all")

    def act(self, **options: Any) -> None:
        name = options["account"]
        accounts = [find_account(name)] if name is not None else list(pool().exclude(jar=""))
        try:
            checked = [check_account(account) for account in accounts]
        finally:
            network.close()
        for account in checked:
            reason = f": {account.health_reason}" if account.health_reason else ""
            self.say(f"{account} ({account.tier}) is {account.health}{reason}")
        if not checked:
            self.say("there is no web session")
        if not checked or any(account.health != WebAccount.Health.ACTIVE for account in checked):
            sys.exit(1)
