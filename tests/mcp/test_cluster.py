"""Three web processes behind one address: any of them answers any message (mcp-server §§4.1, 6.7)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.clients import Keys, connected
from tests.mcp.conftest import keys_of
from tests.mcp.test_clients import ended, started
from tests.mcp.test_node import VISITS, as_it_should, visits_of
from tests.migrated import new_database
from tests.running_server import Role, RunningServer
from tests.services import Valkey, free_port

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
WEBS = 3
CALLS = 20


@dataclass(frozen=True, slots=True)
class Cluster:
    webs: list[RunningServer]
    keys: Keys
    broker: Valkey


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        database, broker = stack.enter_context(new_database()), Valkey()
        stack.callback(broker.close)
        broker.start()
        sandbox_port = str(free_port())

        def process(role: Role) -> RunningServer:
            return RunningServer(
                folder,
                mode="cluster",
                role=role,
                database_url=database,
                redis_url=broker.url,
                SANDBOX_PORT=sandbox_port,
                SANDBOX_SECONDS="0.5",
                RESEARCH_POLL_SECONDS="0.2",
            )

        servers = [process("web") for _ in range(WEBS)] + [process("worker"), process("beat")]
        for server in servers:
            stack.enter_context(server)
        yield Cluster(servers[:WEBS], keys_of(servers[0]), broker)


@asynccontextmanager
async def one_address(servers: list[RunningServer]) -> AsyncIterator[RunningServer]:
    """A port that gives each new connection to the next of them; it looks like the first."""
    turn = itertools.cycle([server.port for server in servers])
    open_ones: set[asyncio.Task[None] | None] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.add(asyncio.current_task())
        async with closing(writer):
            there, back = await asyncio.open_connection("127.0.0.1", next(turn))
            async with closing(back):
                await asyncio.gather(copy(reader, back), copy(there, writer))

    async with await asyncio.start_server(pass_on, "127.0.0.1", 0) as balancer:
        port = balancer.sockets[0].getsockname()[1]
        yield RunningServer(servers[0].folder, PORT=str(port))
        balancer.close()
        for task in filter(None, open_ones):
            task.cancel()
        await asyncio.gather(*filter(None, open_ones), return_exceptions=True)


@asynccontextmanager
async def closing(end: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Closed with all that was written to it; at once when the balancer goes."""
    try:
        yield
    except asyncio.CancelledError:
        end.transport.abort()
        raise
    finally:
        end.close()
        with suppress(OSError):
            await end.wait_closed()


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


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_it_answers_every_call_that_is_relayed_from_standard_input(cluster: Cluster, mode: str) -> None:
    async with (
        one_address(cluster.webs) as address,
        connected(address, cluster.keys, "stdio-relay", mode) as client,
    ):
        calls = [client.call_tool("perplexity_models", {}) for _ in range(CALLS)]
        assert all(not answer.is_error for answer in await asyncio.gather(*calls))


async def test_it_answers_every_call_of_the_typescript_clients(cluster: Cluster) -> None:
    async with one_address(cluster.webs) as address:
        told = await asyncio.to_thread(visits_of, address, cluster.keys, calls=CALLS)
    assert told == {visit: as_it_should(CALLS) for visit in VISITS}


async def test_it_starts_at_one_process_and_reads_at_another(cluster: Cluster) -> None:
    one, other, _ = cluster.webs
    async with connected(one, cluster.keys) as client:
        run = await started(client)
    async with connected(other, cluster.keys, "sse") as client:
        assert (await ended(client, run))["status"] == "completed"


async def test_it_lets_a_client_come_again_whose_stream_went_with_redis(
    cluster: Cluster,
) -> None:
    """A call that is lost with the stream fails; it is not waited for in silence."""
    async with one_address(cluster.webs) as address:
        async with connected(address, cluster.keys, "sse", "legacy") as client:
            assert not (await client.call_tool("perplexity_models", {})).is_error
            cluster.broker.stop()
            cluster.broker.start()
            with pytest.raises(MCPError):
                await client.call_tool("perplexity_models", {})
        async with connected(address, cluster.keys, "sse", "legacy") as client:
            assert not (await client.call_tool("perplexity_models", {})).is_error
