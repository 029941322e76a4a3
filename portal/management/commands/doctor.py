from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from portal.running.checkup import Verdict, check_up
from portal.services import network


class Command(BaseCommand):
    help = "Say what is configured, reachable and wrong. Exits with 1 when something is wrong."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        wrong = 0
        for finding in check_up():
            wrong += finding.verdict is Verdict.WRONG
            self.stdout.write(f"{finding.verdict:5}  {finding.topic:13}  {finding.text}")
            self.stdout.flush()
        network.close()
        if wrong:
            sys.exit(1)
