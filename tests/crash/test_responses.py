"""Responses in a cluster whose processes are killed: what is written goes on, and is the same everywhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import httpx
import openai
import psycopg
import pytest

from portal.wire.ids import parse_response_id
from tests.crash.test_cluster import Cluster
from tests.migrated import new_database
from tests.proxy.responding import checked, records, text_of
from tests.running_server import RunningServer
from tests.sandbox_server import SandboxServer
from tests.services import Valkey

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

LONG = "Why is {}? [sandbox:duration=8] [sandbox:pieces=80]"
PATIENCE = 60.0


class Chats(Cluster):
    """Two web processes, one worker, one beat."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.other_web = self._process("web", "web2")
        self.clients = ExitStack()
        del self.workers[1:], self.beats[1:]

    @property
    def all(self) -> list[RunningServer]:
        return [self.web, self.other_web, *self.workers, *self.beats]

    @property
    def key(self) -> str:
        return self.web.api_key

    def client(self, web: RunningServer) -> openai.OpenAI:
        """Closed with the cluster."""
        client = openai.OpenAI(api_key=self.key, base_url=f"{web.url}/v1", max_retries=0)
        return self.clients.enter_context(client)

    def close(self) -> None:
        self.clients.close()
        super().close()

    def read(self, web: RunningServer, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.get(f"{web.url}{path}", headers=headers, timeout=PATIENCE)

    def replay(self, web: RunningServer, id: str) -> bytes:
        return self.read(web, f"/v1/responses/{id}?stream=true").content

    @property
    def credits(self) -> dict[str, Decimal]:
        found = self.read(self.other_web, "/api/account").json()["credits"]
        return {name: Decimal(str(value)) for name, value in found.items()}

    def let_leases_end(self) -> None:
        """Half a minute goes by."""
        with psycopg.connect(self.database_url, autocommit=True) as database:
            database.execute(
                "UPDATE proxy_chatturn SET lease_until = now() - interval '1 s' WHERE state = 'open'"
            )


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chats]:
    folder = tmp_path_factory.mktemp("chats")
    with ExitStack() as stack:
        sandbox = stack.enter_context(SandboxServer(folder / "sandbox.sqlite3", chat_seconds=0.5))
        valkey = Valkey()
        valkey.start()
        stack.callback(valkey.close)
        cluster = Chats(folder, sandbox, stack.enter_context(new_database()), valkey)
        stack.callback(cluster.close)
        cluster.start()
        yield cluster


@pytest.fixture
def cluster(lasting: Chats) -> Chats:
    """Those that died are back."""
    lasting.start()
    return lasting


class Reader:
    """Reads a stream in a thread of its own, as far as it comes."""

    def __init__(self, open_stream: Callable[[], Any]) -> None:
        self.events: list[Any] = []
        self.error: Exception | None = None
        self._open = open_stream
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for event in self._open():
                self.events.append(event)
        except Exception as error:  # the test looks at it
            self.error = error

    @property
    def text(self) -> str:
        return "".join(
            event.delta for event in list(self.events) if event.type == "response.output_text.delta"
        )

    @property
    def id(self) -> str:
        id: str = self.events[0].response.id
        return id

    def wait_for_text(self) -> None:
        until(lambda: self.text)

    def end(self) -> None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)


def test_it_goes_on_at_another_web_process_when_one_is_killed(cluster: Chats) -> None:
    doomed, other = cluster.client(cluster.web), cluster.client(cluster.other_web)
    question = LONG.format("the sea salty")
    reader = Reader(
        lambda: doomed.responses.create(model="gpt", input=question, background=True, stream=True)
    )
    reader.wait_for_text()

    cluster.web.kill()
    reader.end()
    before = len(reader.events)
    rest = list(
        other.responses.retrieve(reader.id, stream=True, starting_after=reader.events[-1].sequence_number)
    )

    assert [event.sequence_number for event in rest] == list(range(before, before + len(rest)))
    final = rest[-1]
    assert final.type == "response.completed"
    joined = reader.text + "".join(one.delta for one in rest if one.type == "response.output_text.delta")
    assert joined == final.response.output_text == other.responses.retrieve(reader.id).output_text
    cluster.start()
    first, second = (cluster.replay(web, reader.id) for web in (cluster.web, cluster.other_web))
    assert first == second
    assert len(checked(first)) == before + len(rest)


def test_it_is_ended_by_another_worker_when_one_is_killed(cluster: Chats) -> None:
    client, before = cluster.client(cluster.other_web), cluster.credits
    question = LONG.format("the sky blue")
    reader = Reader(
        lambda: client.responses.create(model="gpt", input=question, background=True, stream=True)
    )
    reader.wait_for_text()

    cluster.workers[0].kill()
    early = reader.text
    cluster.let_leases_end()
    cluster.workers[0].start()
    reader.end()

    assert reader.error is None
    final = reader.events[-1]
    assert final.type == "response.completed"
    assert 0 < len(early) < len(reader.text)
    assert reader.text == final.response.output_text == client.responses.retrieve(reader.id).output_text
    whole = cluster.replay(cluster.web, reader.id)
    checked(whole)
    assert len(records(whole)) == len(reader.events)
    [entry] = [one for one in cluster.sandbox.web_entries() if "sky blue" in json.dumps(one)]
    assert entry["reconnects"] == 1
    assert cluster.credits == {"balance": before["balance"] - Decimal("0.1"), "reserved": 0}
    assert cluster.web.manage("ledger_check").returncode == 0


def streamed_by_a_doomed_web(cluster: Chats, question: str) -> Reader:
    """Its process is killed under it; another web process finds that its lease is over."""
    client = cluster.client(cluster.web)
    reader = Reader(lambda: client.responses.create(model="gpt", input=question, stream=True))
    reader.wait_for_text()
    key = parse_response_id(reader.id)
    until(lambda: cluster.books.read(f"SELECT 1 FROM proxy_chatresponse WHERE id = '{key}' AND thread <> ''"))

    cluster.web.kill()
    reader.end()
    cluster.let_leases_end()
    return reader


def test_a_worker_ends_what_a_killed_web_process_was_streaming(cluster: Chats) -> None:
    before = cluster.credits
    reader = streamed_by_a_doomed_web(cluster, LONG.format("grass green"))
    other = cluster.client(cluster.other_web)
    whole = list(other.responses.retrieve(reader.id, stream=True))

    final = whole[-1]
    assert final.type == "response.completed"
    joined = "".join(one.delta for one in whole if one.type == "response.output_text.delta")
    assert joined == final.response.output_text == other.responses.retrieve(reader.id).output_text
    assert joined.startswith(reader.text)
    checked(cluster.replay(cluster.other_web, reader.id))
    assert cluster.credits == {"balance": before["balance"] - Decimal("0.1"), "reserved": 0}


def test_it_fails_and_costs_nothing_where_the_upstream_has_lost_the_answer(cluster: Chats) -> None:
    before = cluster.credits
    reader = streamed_by_a_doomed_web(cluster, LONG.format("snow white") + " [sandbox:no-resume]")
    other = cluster.client(cluster.other_web)
    *_, last = other.responses.retrieve(reader.id, stream=True)

    assert last.type == "response.failed"
    failed = other.responses.retrieve(reader.id)
    assert failed.error is not None
    assert failed.error.code == "server_error"
    assert text_of(failed.model_dump()) == ""
    assert cluster.credits == before
