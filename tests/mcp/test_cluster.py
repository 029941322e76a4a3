"""Three web processes behind one address: any of them answers any message (mcp-server §§4.1, 6.7)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mcp.clients import Keys, connected
from tests.mcp.conftest import keys_of
from tests.mcp.test_clients import ended, started
from tests.migrated import new_database
from tests.running_server import Role, RunningServer
from tests.services import free_port, running

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
WEBS = 3
CALLS = 20


@dataclass(frozen=True, slots=True)
class Cluster:
    webs: list[RunningServer]
    keys: Keys


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        database, broker = stack.enter_context(new_database()), stack.enter_context(running("valkey"))
        sandbox_port = str(free_port())

        def process(role: Role) -> RunningServer:
            return RunningServer(
                folder,
                mode="cluster",
                role=role,
                database_url=database,
                redis_url=broker,
                SANDBOX_PORT=sandbox_port,
                SANDBOX_SECONDS="0.5",
                RESEARCH_POLL_SECONDS="0.2",
            )

        servers = [process("web") for _ in range(WEBS)] + [process("worker"), process("beat")]
        for server in servers:
            stack.enter_context(server)
        yield Cluster(servers[:WEBS], keys_of(servers[0]))


@asynccontextmanager
async def one_address(servers: list[RunningServer]) -> AsyncIterator[RunningServer]:
    """A port that gives each new connection to the next of them; it looks like the first."""
    turn = itertools.cycle([server.port for server in servers])
    open_ones: set[asyncio.Task[None] | None] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.add(asyncio.current_task())
        there, back = await asyncio.open_connection("127.0.0.1", next(turn))
        try:
            await asyncio.gather(copy(reader, back), copy(there, writer))
        finally:
            for end in (writer, back):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    async with await asyncio.start_server(pass_on, "127.0.0.1", 0) as balancer:
        port = balancer.sockets[0].getsockname()[1]
        yield RunningServer(servers[0].folder, PORT=str(port))
        for task in filter(None, open_ones):
            task.cancel()
        await asyncio.gather(*filter(None, open_ones), return_exceptions=True)


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
        sink.write_eof()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_it_answers_every_call_whichever_process_it_meets(
    cluster: Cluster, transport: str, mode: str
) -> None:
    async with one_address(cluster.webs) as address:
        for _ in range(WEBS):
            async with connected(address, cluster.keys, transport, mode) as client:
                calls = [client.call_tool("perplexity_models", {}) for _ in range(CALLS)]
                assert all(not answer.is_error for answer in await asyncio.gather(*calls))


async def test_it_starts_at_one_process_and_reads_at_another(cluster: Cluster) -> None:
    one, other, _ = cluster.webs
    async with connected(one, cluster.keys) as client:
        run = await started(client)
    async with connected(other, cluster.keys, "sse") as client:
        assert (await ended(client, run))["status"] == "completed"
