"""The cluster's cache, with Redis and without."""

from __future__ import annotations

import pytest

from portal.services.cache import SteadyCache

AWAY = "redis://127.0.0.1:9/0"


def test_it_remembers_by_itself_while_redis_is_away() -> None:
    cache = SteadyCache(AWAY, {})

    assert cache.add("lock", True)
    assert not cache.add("lock", True)
    cache.set("tries", 3)
    assert cache.get("tries") == 3
    assert cache.delete("tries")
    assert cache.get("tries", "none") == "none"
    cache.delete("lock")


@pytest.mark.cluster
def test_it_shares_what_it_knows_through_redis(valkey_url: str) -> None:
    first, second = SteadyCache(valkey_url, {}), SteadyCache(valkey_url, {})

    first.set("tries", 3)

    assert second.get("tries") == 3
    assert not second.add("tries", 4)
    assert second.delete("tries")
    assert first.get("tries") is None
