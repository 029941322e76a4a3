from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # `portal.models` is a package of modules with an empty __init__ (HOUSE §1): name them here.
        for module in ("users", "teams", "keys", "ledger", "audit", "system"):
            import_module(f"portal.models.{module}")
        super().import_models()
