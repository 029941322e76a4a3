"""The suite really runs on the engines it says it runs on."""

from __future__ import annotations

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection

from tests import environment


@pytest.mark.django_db
def test_it_runs_on_the_database_of_its_pass() -> None:
    vendors = {"sqlite": "sqlite", "postgres": "postgresql"}

    assert connection.vendor == vendors[environment.ENGINE]


@pytest.mark.django_db
@pytest.mark.embedded
def test_it_keeps_the_sqlite_database_in_a_file_of_its_own_process() -> None:
    name = str(connection.settings_dict["NAME"])

    assert name.startswith(str(environment.process_folder()))


@pytest.mark.cluster
def test_it_runs_cluster_mode_on_the_redis_of_its_process() -> None:
    assert settings.CLUSTER
    assert environment.valkey_url() == settings.REDIS_URL


def test_it_has_a_real_postgresql(new_postgres_url: str) -> None:
    with psycopg.connect(new_postgres_url) as connected:
        row = connected.execute("SHOW server_version_num").fetchone()

    assert row is not None
    assert int(row[0]) >= 150000


def test_it_has_a_real_valkey_or_redis(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        client.set("sonde-test", "here", ex=5)

        assert client.get("sonde-test") == b"here"
