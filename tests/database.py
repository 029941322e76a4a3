"""What the tests need of the database beyond pytest-django.

Tests with real transactions empty every table when they end, which the triggers of the ledger
forbid, and so lose what the migrations planted: the plan, the presets, the backend policies.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models.signals import post_migrate
from django.test import TransactionTestCase

from portal.services import ledger_guard

PLANTED = (
    ("portal.migrations.0002_default_plan", "add_default_plan"),
    ("proxy.migrations.0002_catalogue", "add_models"),
    ("proxy.migrations.0002_catalogue", "add_patterns"),
    ("research.migrations.0002_presets", "add_presets"),
    ("research.migrations.0002_presets", "add_backend_policies"),
)


def let_tests_empty_the_database() -> None:
    """Lift the guard for each flush; the signal after it puts the guard and the plants back."""
    case: Any = TransactionTestCase
    flush = case._fixture_teardown

    def lift_and_flush(self: TransactionTestCase) -> None:
        ledger_guard.remove()
        flush(self)

    case._fixture_teardown = lift_and_flush
    post_migrate.connect(plant, sender=apps.get_app_config("research"), dispatch_uid="tests.plant")


def plant(**signal: Any) -> None:
    """Run the data migrations again; each leaves alone what is there."""
    for module, function in PLANTED:
        getattr(import_module(module), function)(apps, connection.schema_editor())
