"""Whether the database's tables are as this version needs them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def are_current() -> bool:
    """Every start and every probe asks. Django would read and sort all migrations for an answer; mostly it
    is enough that each of them is named among those that were applied."""
    return names().issubset(MigrationRecorder(connection).applied_migrations()) or not _plan()


@cache
def names() -> frozenset[tuple[str, str]]:
    """All migrations there are: the app's label and the name."""
    return frozenset((app.label, name) for app in apps.get_app_configs() for name in _names_of(app.label))


def _names_of(label: str) -> list[str]:
    module, is_told = MigrationLoader.migrations_module(label)
    if module is None:
        return []
    try:
        package = import_module(module)
    except ModuleNotFoundError:
        if is_told:
            raise
        return []  # an app without any
    return [found.name for found in iter_modules(package.__path__) if found.name[0] not in "_~"]


def _plan() -> list[object]:
    executor = MigrationExecutor(connection)
    return list(executor.migration_plan(executor.loader.graph.leaf_nodes()))
