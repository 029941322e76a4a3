"""Asynchronous network calls from synchronous code: one event loop thread per process.

Workers and commands are threads; the HTTP clients are asynchronous and shared. `call` runs a
coroutine on the loop and waits for its result. It refuses to while the calling thread has a
transaction open: a slow upstream would hold locks, on SQLite everybody's (STACK §10.3).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from django.db import connections

from portal.http import SECONDS, AsyncClient, async_client
from portal.reader import Reader

Result = TypeVar("Result")
CLOSE_SECONDS = 5.0


class Network:
    """One event loop in a daemon thread, and the clients that live on it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clients: dict[tuple[str, float], AsyncClient] = {}
        self.readers: dict[str, Reader] = {}
        self.thread = threading.Thread(target=self._run, name="network", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def close(self) -> None:
        """Cancel what still runs, close the clients, end the thread."""
        asyncio.run_coroutine_threadsafe(self._wind_up(), self.loop).result(CLOSE_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(CLOSE_SECONDS)
        self.loop.close()

    async def _wind_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.gather(*(client.aclose() for client in self.clients.values()))
        await asyncio.gather(*(reader.aclose() for reader in self.readers.values()))
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()


# Made on first use, so that importing this starts no thread; forgotten by a forked child, which
# inherits the object but not its thread.
_network: Network | None = None
_making = threading.Lock()


def call(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` on the network loop and give what it gives or raises.

    The caller's database connection is given back for as long as that takes: it would be one less
    for others, and could break unnoticed.

    Errors: RuntimeError inside a transaction, or on the network loop itself.
    """
    network = _running()
    try:
        _refuse_in_transaction()
        if threading.current_thread() is network.thread:
            raise RuntimeError("network.call would wait for its own thread: await the coroutine instead")
    except RuntimeError:
        work.close()
        raise
    _give_back_connections()
    future = asyncio.run_coroutine_threadsafe(work, network.loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def begin(work: Coroutine[Any, Any, object]) -> None:
    """Start `work` on the network loop and wait for nothing; it has to handle its own errors."""
    asyncio.run_coroutine_threadsafe(work, _running().loop)


def shared_client(base_url: str, *, timeout: float = SECONDS) -> AsyncClient:
    """The process's one client of `base_url`, for use inside `call`; `timeout` in seconds.

    It is shared by everybody who asks that upstream, so credentials go into each request.
    """
    network = _running()
    with _making:
        client = network.clients.get((base_url, timeout))
        if client is None:
            client = network.clients[base_url, timeout] = async_client(base_url, timeout=timeout)
    return client


def shared_reader(base_url: str) -> Reader:
    """The process's one reader of `base_url`, for use inside `call`; credentials as above."""
    network = _running()
    with _making:
        if base_url not in network.readers:
            network.readers[base_url] = Reader(base_url)
    return network.readers[base_url]


def close() -> None:
    """End the loop and its clients, if there are any; a later call starts anew."""
    global _network
    with _making:
        network, _network = _network, None
    if network is not None:
        network.close()


def _running() -> Network:
    global _network
    with _making:
        if _network is None:
            _network = Network()
        return _network


def _forget() -> None:
    global _network, _making
    _network, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _give_back_connections() -> None:
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def _refuse_in_transaction() -> None:
    """As Django's own durable blocks do, this looks past the transaction a test case wraps around it."""
    for connection in connections.all(initialized_only=True):
        blocks = connection.atomic_blocks
        # The attribute is missing in the stubs only.
        if blocks and not getattr(blocks[-1], "_from_testcase", False):
            raise RuntimeError("a network call inside a database transaction: commit first")
