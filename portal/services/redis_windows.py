"""Windows of requests (`portal.services.limits`), counted in one Redis script."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from redis import Redis, RedisError

PATIENCE = 0.5
"""Seconds to wait for an answer."""

# Counts the request in every window and returns the counts, or, when one is full, counts it in
# none and returns minus its place.
SCRIPT = """
for place, window in ipairs(KEYS) do
    if tonumber(redis.call('GET', window) or '0') >= tonumber(ARGV[place + 1]) then return {-place} end
end
local counts = {}
for place, window in ipairs(KEYS) do
    counts[place] = redis.call('INCR', window)
    redis.call('EXPIRE', window, ARGV[1])
end
return counts
"""


@cache
def server(url: str) -> Redis:
    return Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)


def count(url: str, keys: Sequence[str], limits: Sequence[int]) -> list[int]:
    """The counts of all windows with this request; or, of none, minus the place of a full one, from 1.

    Errors: ConnectionError, of whatever kept Redis from answering.
    """
    try:
        counts = server(url).eval(SCRIPT, len(keys), *keys, 120, *limits)
    except RedisError as error:
        raise ConnectionError(type(error).__name__) from None
    assert isinstance(counts, list)
    return [int(one) for one in counts]
