from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from portal.management.base import PlainCommand, count, credits, moment, words
from portal.services.keys import DEFAULT_SCOPES, create_key
from portal.services.users import find_user


class Command(PlainCommand):
    help = "Make an API key. Standard output is the key alone; it is never shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL")
        parser.add_argument("--name", metavar="N", required=True, help="what the key is for")
        parser.add_argument("--scopes", metavar="a,b", help=f"default: {','.join(DEFAULT_SCOPES)}")
        parser.add_argument("--expires", metavar="ISO", help="as in 2027-01-31T12:00:00Z")
        parser.add_argument("--rpm", metavar="N", help="requests per minute")
        parser.add_argument("--parallel", metavar="N", help="runs in flight")
        parser.add_argument("--monthly-cap", metavar="N", help="credits per calendar month")
        parser.add_argument("--ip", metavar="CIDR,…", help="addresses or networks it may be used from")

    def act(self, **options: Any) -> None:
        cap = options["monthly_cap"]
        _, text = create_key(
            find_user(options["email"]),
            name=options["name"],
            scopes=words(options["scopes"]) if options["scopes"] is not None else DEFAULT_SCOPES,
            expires_at=moment(options["expires"]),
            networks=words(options["ip"]),
            monthly_cap=credits(cap) if cap is not None else None,
            requests_per_minute=count(options["rpm"], "--rpm"),
            parallel_runs=count(options["parallel"], "--parallel"),
        )
        self.say(text)
