"""Chats that come together while what they stand on goes away: each is paid as it was delivered, once."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.crash.test_cluster import Cluster
from tests.migrated import migrate
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer
from tests.services import Postgres, Valkey

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

MANY = 50
PRICE = 1_000
"""Of one chat as the books count: in ten-thousandths of a credit."""
PATIENCE = 60.0
OUTAGE = 4.0
"""Seconds; the answers end in the middle of it."""
ASK = "/rest/sse/perplexity_ask"
OPEN = "SELECT COUNT(*) FROM proxy_chatturn WHERE state = 'open'"


@dataclass(frozen=True, slots=True)
class Got:
    """What one caller has seen; status 0: the connection broke before any."""

    status: int
    has_text: bool
    is_whole: bool


WHOLE = Got(200, has_text=True, is_whole=True)


class Chats(Cluster):
    """Two web processes, one worker, one beat, and a PostgreSQL that can be stopped."""

    def __init__(self, folder: Path, sandbox: SandboxServer, postgres: Postgres, valkey: Valkey) -> None:
        super().__init__(folder, sandbox, postgres.url, valkey)
        self.postgres = postgres
        self.other_web = self._process("web", "web2")
        del self.workers[1:], self.beats[1:]
        self.closes_before: Counter[int] = Counter()

    @property
    def all(self) -> list[RunningServer]:
        return [self.web, self.other_web, *self.workers, *self.beats]

    def do(self, statement: str) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as database:
            database.execute(statement.encode())

    def key_of_somebody(self, credits: str) -> str:
        email = "somebody@example.org"
        assert self.web.manage("create_user", email, "--credits", credits).returncode == 0
        return self.web.manage("create_api_key", email, "--name", "crowd").stdout.strip()

    def ask_all(self, key: str, question: str, meanwhile: Callable[[], None] = lambda: None) -> list[Got]:
        return asyncio.run(self._ask_all(key, question, meanwhile))

    async def _ask_all(self, key: str, question: str, meanwhile: Callable[[], None]) -> list[Got]:
        headers = {"Authorization": f"Bearer {key}"}
        limits = httpx.Limits(max_connections=MANY)
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE, limits=limits) as client:
            webs = [(self.web, self.other_web)[place % 2] for place in range(MANY)]
            asking = [asyncio.ensure_future(ask(client, web.url, question)) for web in webs]
            await asyncio.to_thread(meanwhile)
            return await asyncio.gather(*asking)

    def was_asked(self, question: str) -> bool:
        """Whether it reaches the sandbox within a second."""
        until = time.monotonic() + 1
        while time.monotonic() < until:
            if any(question in str(one) for one in self.sandbox.web_requests(ASK)):
                return True
            time.sleep(0.02)
        return False

    def wait_until_open(self, wanted: int) -> None:
        until = time.monotonic() + PATIENCE
        while (found := self.books.read(OPEN)[0][0]) != wanted:
            assert time.monotonic() < until, f"{found} are open"
            time.sleep(0.05)

    def restart_postgres(self) -> None:
        self.wait_until_open(MANY)
        self.postgres.stop(signal.SIGINT)
        time.sleep(OUTAGE)
        self.postgres.start()

    def sweep(self) -> None:
        """Half a minute goes by."""
        self.do("UPDATE proxy_chatturn SET lease_until = now() - interval '1 s' WHERE state = 'open'")
        self.wait_until_open(0)

    def settled(self) -> Counter[int]:
        """How many chats were closed at which price in this test; the books are sound."""
        checked = self.web.manage("ledger_check")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert self.books.read("SELECT SUM(reserved) FROM portal_creditaccount") == [(0,)]
        return self.closes() - self.closes_before

    def closes(self) -> Counter[int]:
        rows = self.books.read("SELECT settled FROM portal_ledgerentry WHERE kind = 'close'")
        return Counter(price for (price,) in rows)


async def ask(client: httpx.AsyncClient, url: str, question: str) -> Got:
    body = {"model": "gpt", "stream": True, "messages": [{"role": "user", "content": question}]}
    status, came = 0, b""
    with suppress(httpx.TransportError):
        async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
            status = answer.status_code
            async for piece in answer.aiter_bytes():
                came += piece
    return Got(status, b'"content":"' in came.replace(b'": "', b'":"'), b"data: [DONE]" in came)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chats]:
    folder = tmp_path_factory.mktemp("rounds")
    with ExitStack() as stack:
        sandbox = stack.enter_context(SandboxServer(folder / "sandbox.sqlite3", chat_seconds=0.5))
        postgres, valkey = Postgres(), Valkey()
        for server in (postgres, valkey):
            server.start()
            stack.callback(server.close)
        in_a_cluster = {"SONDE_MODE": "cluster", "REDIS_URL": valkey.url}
        migrate(folder / "making", DATABASE_URL=postgres.url, **in_a_cluster)
        cluster = Chats(folder, sandbox, postgres, valkey)
        stack.callback(cluster.close)
        cluster.start()
        cluster.do("UPDATE proxy_webaccount SET parallel_limit = 200")
        yield cluster


@pytest.fixture
def cluster(lasting: Chats) -> Chats:
    """Those that died are back."""
    lasting.start()
    lasting.closes_before = lasting.closes()
    return lasting


def test_credit_for_one_chat_buys_one_of_fifty_at_two_doors(cluster: Chats) -> None:
    got = cluster.ask_all(cluster.key_of_somebody("0.1"), "Why is money round?")

    assert Counter(one.status for one in got) == {200: 1, 429: MANY - 1}
    assert cluster.settled() == {PRICE: 1}


def test_whoever_was_answered_has_paid_though_postgresql_was_restarted(cluster: Chats) -> None:
    key = cluster.web.api_key
    got = cluster.ask_all(key, "Why do tides turn? [sandbox:duration=3]", cluster.restart_postgres)
    cluster.sweep()

    assert Counter(got) == {WHOLE: MANY}
    assert cluster.settled() == {PRICE: MANY}
    assert Counter(cluster.ask_all(key, "Why do tides turn again?")) == {WHOLE: MANY}, "rounds go on"


def test_a_process_that_is_killed_leaves_nothing_held(cluster: Chats) -> None:
    def kill() -> None:
        cluster.wait_until_open(MANY)
        cluster.web.kill()

    got = cluster.ask_all(cluster.web.api_key, "Why do tides die? [sandbox:duration=3]", kill)
    cluster.sweep()

    assert sum(one.is_whole for one in got) == MANY // 2
    assert cluster.settled() == {PRICE: MANY // 2, 0: MANY // 2}


def test_a_process_that_is_killed_before_the_turn_is_open_leaves_the_upstream_and_no_trace(
    cluster: Chats,
) -> None:
    question, paid = asyncio.run(killed_while_asking_ahead(cluster))

    (ask,) = [one for one in cluster.sandbox.web_requests(ASK) if question in str(one)]
    assert ask["ending"] == "left"
    assert cluster.books.read(OPEN) == [(0,)]
    assert cluster.settled() == {PRICE: paid}


async def killed_while_asking_ahead(cluster: Chats) -> tuple[str, int]:
    """The question that a web process had asked for when it was killed, its round waiting for a lock; and how
    many chats were paid before."""
    headers, url = {"Authorization": f"Bearer {cluster.web.api_key}"}, cluster.web.url
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        for place in range(10):
            question = f"Why does tide {place} wait?"
            with psycopg.connect(cluster.database_url) as database:
                assert await ask(client, url, "Why do tides come?") == WHOLE
                database.execute("SELECT 1 FROM proxy_webaccount FOR UPDATE")
                waiting = asyncio.ensure_future(ask(client, url, f"{question} [sandbox:duration=5]"))
                if await asyncio.to_thread(cluster.was_asked, question):
                    cluster.web.kill()
                    database.rollback()
                    assert not (await waiting).has_text
                    return question, 2 * place + 1
                database.rollback()  # what the round before had seen was too old by then: it is asked for now
                assert await waiting == WHOLE
    raise AssertionError("nothing was asked ahead")
