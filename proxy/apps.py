from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class ProxyConfig(AppConfig):
    name = "proxy"
    verbose_name = "Chat"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # `proxy.models` is a package of modules with an empty __init__ (HOUSE §1): name them here.
        for module in ("accounts", "catalog", "chats", "responses", "research", "files"):
            import_module(f"proxy.models.{module}")
        super().import_models()

    def ready(self) -> None:
        # The portal below does not know what else can hold a credential.
        from portal.services import upstreams  # noqa: PLC0415  # settings are read by now
        from portal.services.users import before_disabling, disabling  # noqa: PLC0415
        from proxy.services import sessions  # noqa: PLC0415
        from proxy.services.responses import (  # noqa: PLC0415
            lock_turns_of_disabled,
            stop_responses_of_disabled,
        )

        upstreams.add_source(sessions.has_live_account)
        before_disabling.connect(lock_turns_of_disabled, dispatch_uid="proxy.lock_turns_of_disabled")
        disabling.connect(stop_responses_of_disabled, dispatch_uid="proxy.stop_responses_of_disabled")
