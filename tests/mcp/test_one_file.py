"""`sonde_mcp.py` as a laptop runs it: an interpreter, the file, and two variables."""

from __future__ import annotations

import ast
import json
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.mcp.clients import Keys, call
from tests.mcp.test_clients import NAMES, started
from tests.mcp.test_stdio import SEED, Pipe, text_of, use
from tests.running_server import ROOT, RunningServer

pytestmark = pytest.mark.embedded
FILE = ROOT / "sonde_mcp.py"
PATIENCE = 60.0
OLDEST = (3, 9)
EVENTS = (
    ": ping\r\n\r\n"
    'event: message\r\ndata: {"jsonrpc":"2.0",\r\n'
    'data: "method":"notifications/progress","params":{}}\r\n\r\n'
    'data: {"jsonrpc":"2.0","id":7,"result":{"text":"\u00e4\u2028"}}\r\n\r\n'
)


class Laptop(Pipe):
    """Nothing but the file: no folder of ours, no package."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = environment

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(FILE)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def laptop(portal: RunningServer, keys: Keys, tmp_path: Path) -> Laptop:
    return Laptop(tmp_path, SONDE_URL=portal.url, SONDE_API_KEY=keys.plain)


class Slow(socketserver.StreamRequestHandler):
    """A portal that answers a byte at a time, so that events are cut everywhere."""

    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.rfile.read(length)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for byte in EVENTS.encode():
            self.wfile.write(bytes([byte]))


@pytest.fixture
def slow() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_it_needs_the_standard_library_of_an_old_python_only() -> None:
    tree = ast.parse(FILE.read_text(), feature_version=OLDEST)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {name.name for node in imports if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_it_answers_all_that_is_piped_in_before_the_input_ends(laptop: Laptop) -> None:
    lines: list[dict[str, Any] | str] = [
        *SEED,
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        "console.log('stray')",
        '{"jsonrpc":"2.0","id":0,"method":"ping"}',
        use("list_research", 3),
        use("perplexity_models", 4),
        call("no/such", to="a"),
        "[]",
    ]
    answers, err = laptop.talk(*lines)
    assert set(answers) == {1, 2, 0, 3, 4, "a", None}
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == NAMES
    assert answers[3]["result"]["structuredContent"]["runs"] is not None
    assert answers["a"]["error"]["code"] == -32601
    assert answers[None]["error"]["code"] == -32600
    assert "a line was skipped" in err


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_serves_the_official_client_with_progress(
    portal: RunningServer, keys: Keys, mode: Any, tmp_path: Path
) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    environment = {"SONDE_URL": portal.url, "SONDE_API_KEY": keys.plain}
    streams = stdio_client(
        StdioServerParameters(command=sys.executable, args=[str(FILE)], env=environment, cwd=tmp_path)
    )
    async with Client(streams, mode=mode) as client:
        run = await started(client, "Why? [sandbox:duration=2]")
        waiting = {"job_id": run, "wait_seconds": 20}
        answer = await client.call_tool("pplx_deep_research_check", waiting, progress_callback=note)
    assert not answer.is_error
    assert len(seen) >= 2
    assert seen == sorted(set(seen))


def test_it_passes_events_on_wherever_they_are_cut(slow: str, tmp_path: Path) -> None:
    process = Laptop(tmp_path, SONDE_URL=slow, SONDE_API_KEY="k").start()
    out, err = process.communicate(json.dumps(call("tools/list", to=7)) + "\n", timeout=PATIENCE)
    frames = [json.loads(line) for line in out.split("\n") if line]
    assert [frame.get("method", frame.get("id")) for frame in frames] == ["notifications/progress", 7]
    assert frames[1]["result"] == {"text": "\u00e4\u2028"}
    assert err == ""


def test_it_answers_nothing_to_a_call_that_was_cancelled(laptop: Laptop) -> None:
    asked = {"question": "Why? [sandbox:stuck]", "preset": "2m", "idempotency_key": uuid4().hex}
    answers, _ = laptop.talk(*SEED, use("start_research", 3, **asked))
    run = answers[3]["result"]["structuredContent"]["id"]
    waits = use("pplx_deep_research_check", 4, job_id=run, wait_seconds=40)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}
    answers, err = laptop.talk(*SEED, waits, cancel, use("cancel_research", 5, id=run))
    assert set(answers) == {1, 2, 5}
    assert err == ""


def test_it_says_that_the_key_opens_nothing_and_does_not_show_it(laptop: Laptop, keys: Keys) -> None:
    laptop.environment["SONDE_API_KEY"] = keys.plain[:-3] + "abc"
    process = laptop.start()
    asked = [SEED[0], json.dumps(use("perplexity_models", 3))]
    out, err = process.communicate("\n".join(asked), timeout=PATIENCE)
    first, second = map(json.loads, out.splitlines())
    assert "SONDE_API_KEY" in first["error"]["message"]
    assert second["result"]["isError"]
    assert "SONDE_API_KEY" in text_of(second)
    assert keys.plain[:-3] not in out + err


def test_it_says_that_there_is_no_portal(tmp_path: Path) -> None:
    nowhere = Laptop(tmp_path, SONDE_URL="http://127.0.0.1:9", SONDE_API_KEY="k")
    answers, _ = nowhere.talk(*SEED, use("list_research", 3))
    assert "does not answer" in answers[1]["error"]["message"]
    assert "does not answer" in text_of(answers[3])


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SONDE_URL", ""),
        ("SONDE_URL", "sonde.example.org"),
        ("SONDE_URL", "http://host:port"),
        ("SONDE_API_KEY", ""),
        ("SONDE_API_KEY", "planted\nkey"),
    ],
)
def test_it_names_the_variable_that_is_wrong(tmp_path: Path, variable: str, value: str) -> None:
    given = {"SONDE_URL": "http://127.0.0.1:9", "SONDE_API_KEY": "k", variable: value}
    process = Laptop(tmp_path, **given).start()
    out, err = process.communicate("", timeout=PATIENCE)
    assert (process.returncode, out) == (1, "")
    assert err.startswith(f"sonde_mcp: {variable}:")
    assert "planted" not in err
