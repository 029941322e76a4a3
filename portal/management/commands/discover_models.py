from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from portal.management.base import PlainCommand
from portal.services import network
from portal.wire.errors import Unavailable
from proxy.services.discovery import discover


class Command(PlainCommand):
    help = "Look up which chat models still answer; add new ones, and take successors of those that are gone."

    def act(self, **options: Any) -> None:
        try:
            report = discover(manual=True)
        except Unavailable as problem:
            raise CommandError(str(problem)) from None
        finally:
            network.close()
        for model in report.added:
            self.say(f"new       {model.id}")
        for name, (old, new) in report.upgraded.items():
            self.say(f"upgraded  {name}: {old} -> {new}")
        for kind, troubles in (("gone", report.dead), ("unclear", report.unavailable)):
            for trouble in troubles:
                self.say(f"{kind:9} {trouble.model}: {trouble.reason}")
        self.say(f"{len(report.alive)} models answer; {report.probed} were asked")
