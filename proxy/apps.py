from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class ProxyConfig(AppConfig):
    name = "proxy"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # `proxy.models` is a package of modules with an empty __init__ (HOUSE §1): name them here.
        for module in ("accounts", "catalog", "chats"):
            import_module(f"proxy.models.{module}")
        super().import_models()
