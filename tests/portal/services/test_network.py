"""Network calls from threads: where they run, and when they are refused."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from portal.services import network
from tests.portal.listener import Listener


@pytest.fixture(autouse=True)
def _end_the_loop() -> Iterator[None]:
    yield
    network.close()


async def whoami() -> str:
    return threading.current_thread().name


def test_it_gives_what_the_coroutine_gives() -> None:
    assert network.call(whoami()) == "network"


def test_it_raises_what_the_coroutine_raises() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        network.call(fail())


def test_it_runs_the_calls_of_many_threads_side_by_side() -> None:
    barrier = asyncio.Barrier(4)

    async def meet() -> bool:
        async with asyncio.timeout(10):
            await barrier.wait()
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: network.call(meet()), range(4)))


@pytest.mark.django_db(transaction=True)
def test_it_refuses_a_call_inside_a_transaction() -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="inside a database transaction"):
        network.call(whoami())

    assert network.call(whoami()) == "network"


@pytest.mark.django_db
def test_it_looks_past_the_transaction_of_a_test() -> None:
    assert network.call(whoami()) == "network"


def test_it_refuses_to_wait_for_its_own_thread() -> None:
    async def call_again() -> None:
        network.call(whoami())

    with pytest.raises(RuntimeError, match="await the coroutine instead"):
        network.call(call_again())


def test_it_shares_one_client_per_upstream() -> None:
    first = network.shared_client("http://one.invalid")

    assert network.shared_client("http://one.invalid") is first
    assert network.shared_client("http://two.invalid") is not first


def test_it_keeps_connections_open_between_calls() -> None:
    async def ask(url: str) -> int:
        return (await network.shared_client(url).get("/")).status_code

    with Listener() as upstream:
        assert [network.call(ask(upstream.url)) for _ in range(2)] == [200, 200]
        network.close()


def test_it_starts_anew_after_it_was_closed() -> None:
    client = network.shared_client("http://one.invalid")

    network.close()

    assert client.is_closed
    assert network.call(whoami()) == "network"


def test_it_ends_a_call_that_still_runs_when_it_is_closed() -> None:
    started = threading.Event()

    async def wait_for_ever() -> None:
        started.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(network.call, wait_for_ever())
        assert started.wait(10)
        network.close()
        assert waiting.exception(10) is not None or waiting.cancelled()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_it_makes_a_loop_of_its_own_in_a_forked_child() -> None:
    network.call(whoami())

    child = os.fork()
    if child == 0:
        os._exit(0 if network.call(whoami()) == "network" else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
