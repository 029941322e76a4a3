from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from portal.services import tables

pytestmark = pytest.mark.django_db


def test_it_knows_every_migration_that_django_knows() -> None:
    assert tables.names() == MigrationLoader(connection).disk_migrations.keys()


def test_it_finds_current_tables_in_two_statements(django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(2):
        assert tables.are_current()


def test_it_misses_a_migration_that_was_not_applied() -> None:
    MigrationRecorder(connection).record_unapplied(*max(tables.names()))

    assert not tables.are_current()


def test_it_leaves_it_to_django_what_a_migration_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    known = tables.names()
    monkeypatch.setattr(tables, "names", lambda: known | {("portal", "0001_squashed")})

    assert tables.are_current()
