from __future__ import annotations

from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from portal.running.memory import give_large_blocks_back
from portal.services import ledger_guard


class PortalConfig(AppConfig):
    name = "portal"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # `portal.models` is a package of modules with an empty __init__ (HOUSE §1): name them here.
        for module in ("users", "teams", "keys", "ledger", "audit", "system"):
            import_module(f"portal.models.{module}")
        super().import_models()

    def ready(self) -> None:
        from portal.models.users import superuser_made  # noqa: PLC0415  # needs the models
        from portal.services.users import furnish_superuser  # noqa: PLC0415

        # Services ring tasks by name: our Celery application has to be the process's, whatever started it.
        import_module("portal.celery")
        give_large_blocks_back()
        post_migrate.connect(guard_ledger, sender=self, dispatch_uid="portal.guard_ledger")
        superuser_made.connect(furnish_superuser, dispatch_uid="portal.furnish_superuser")


def guard_ledger(using: str, **signal: Any) -> None:
    ledger_guard.install(using)
