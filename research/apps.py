from __future__ import annotations

from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_delete, post_migrate, post_save


class ResearchConfig(AppConfig):
    name = "research"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # `research.models` is a package of modules with an empty __init__ (HOUSE §1): name them here.
        for module in ("presets", "backends", "runs", "reports", "library"):
            import_module(f"research.models.{module}")
        super().import_models()

    def ready(self) -> None:
        from portal.models.teams import Membership  # noqa: PLC0415  # needs the models
        from portal.services.credits import refunding  # noqa: PLC0415
        from portal.services.users import before_disabling, disabling  # noqa: PLC0415
        from research.services.cancel import lock_runs_of_disabled, stop_runs_of_disabled  # noqa: PLC0415
        from research.services.money import note_refund  # noqa: PLC0415
        from research.services.sharing import take_back_of_who_went  # noqa: PLC0415

        post_migrate.connect(watch_for_library, sender=self, dispatch_uid="research.watch_for_library")
        for signal in (post_save, post_delete):
            signal.connect(take_back_of_who_went, Membership, dispatch_uid="research.take_back_of_who_went")
        before_disabling.connect(lock_runs_of_disabled, dispatch_uid="research.lock_runs_of_disabled")
        disabling.connect(stop_runs_of_disabled, dispatch_uid="research.stop_runs_of_disabled")
        refunding.connect(note_refund, dispatch_uid="research.note_refund")


def watch_for_library(using: str, **signal: Any) -> None:
    from research.services import library_triggers  # noqa: PLC0415  # needs no models, but its package does

    library_triggers.install(using)
