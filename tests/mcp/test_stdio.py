"""`manage.py mcp_stdio` by hand, line by line (mcp-deep-research §§5-6)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import warm_start
from tests.mcp.clients import Keys, call
from tests.running_server import ROOT, RunningServer
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.embedded
SEED = [
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}',
    '{"jsonrpc":"2.0","id":2,"method":"tools/list"}',
]
"""What the seed pipes into its own server."""
PATIENCE = 60
READ_ON = """
import asyncio, sys, threading
from portal.mcp.frames import Frames

async def main():
    Frames()

asyncio.run(main())
print("the loop has ended", flush=True)
for thread in threading.enumerate():
    if thread.name == "stdin":
        thread.join()
"""


class Pipe:
    """A process of its own, with a data folder that nobody else has."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "SONDE_ENV_FILE": "",
            "DATA_DIR": str(folder),
            **environment,
        }

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", "mcp_stdio"],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def talk(self, *messages: dict[str, Any] | str) -> tuple[dict[object, dict[str, Any]], str]:
        """Answers by id, and what it said on standard error, when the input has ended with its last line."""
        lines = [message if isinstance(message, str) else json.dumps(message) for message in messages]
        done = self.run("\n".join(lines) + "\n")
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert all(answer["jsonrpc"] == "2.0" for answer in answers)
        return {answer["id"]: answer for answer in answers}, done.stderr

    def run(self, said: str) -> subprocess.CompletedProcess[str]:
        return warm_start.run(["manage.py", "mcp_stdio"], self.environment, timeout=PATIENCE, input=said)


@pytest.fixture
def direct(sandbox: SandboxServer, tmp_path: Path) -> Pipe:
    """With a key of Perplexity's and no portal."""
    return Pipe(tmp_path, {"PERPLEXITY_API_KEY": sandbox.key, "PERPLEXITY_BASE_URL": sandbox.url})


def use(name: str, to: object, **arguments: Any) -> dict[str, Any]:
    return call("tools/call", to=to, name=name, arguments=arguments)


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


def test_it_answers_what_the_seed_pipes_in_and_starts_without_a_key(tmp_path: Path) -> None:
    answers, err = Pipe(tmp_path, {}).talk(*SEED, use("pplx_deep_research_list", 3))
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"
    assert answers[1]["result"]["serverInfo"]["name"] == "sonde"
    names = [tool["name"] for tool in answers[2]["result"]["tools"]]
    assert names == [f"pplx_deep_research_{verb}" for verb in ("start", "check", "list")]
    assert answers[3]["result"]["isError"]
    assert "PERPLEXITY_API_KEY" in text_of(answers[3])
    assert "no key" in err


def test_it_keeps_to_the_protocol_line_by_line(direct: Pipe) -> None:
    answers, err = direct.talk(
        *SEED,
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        "console.log('stray')",
        "",
        '{"jsonrpc":"2.0","id":0,"method":"ping"}',
        '{"jsonrpc":"2.0","id":null,"method":"ping"}',
        '{"jsonrpc":"2.0","id":"a","method":"resources/list"}',
        '{"jsonrpc":"2.0","id":4,"method":"prompts/list"}',
        '{"jsonrpc":"2.0","id":5,"method":"no/such"}',
        '{"jsonrpc":"2.0","id":6,"method":"resources/templates/list"}',
        "[]",
    )
    assert set(answers) == {1, 2, 0, "a", 4, 5, 6, None}
    assert answers[0]["result"] == {}
    assert answers["a"]["result"] == {"resources": []}
    assert answers[4]["result"] == {"prompts": []}
    assert answers[5]["error"]["code"] == -32601
    assert answers[5]["error"]["message"] == "Method not found: no/such"
    assert answers[None]["error"]["code"] == -32600
    assert "a line was skipped" in err


def test_it_finishes_what_is_under_way_when_the_input_ends(direct: Pipe, sandbox: SandboxServer) -> None:
    answers, _ = direct.talk(*SEED, use("pplx_deep_research_start", 3, query="Why? [sandbox:duration=1]"))
    job = next(word for word in text_of(answers[3]).split() if len(word) > 30 or word.startswith("resp_"))
    waits = [use("pplx_deep_research_check", to, job_id=job, wait_seconds=15) for to in (3, 4)]
    answers, _ = direct.talk(*SEED, *waits, use("pplx_deep_research_list", 5))
    assert set(answers) == {1, 2, 3, 4, 5}
    assert "# Deep research result" in text_of(answers[3])
    assert text_of(answers[3]) == text_of(answers[4])
    assert job in text_of(answers[5])


def test_it_ends_at_once_on_a_signal(direct: Pipe) -> None:
    process = direct.start()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(SEED[0] + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_it_reads_on_for_nobody_when_its_loop_has_ended() -> None:
    """The reader is a thread of its own, which a signal finds waiting for a line."""
    reader = subprocess.Popen(
        [sys.executable, "-c", READ_ON],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stderr is not None
    assert reader.stderr.readline() == "the loop has ended\n"
    _, said = reader.communicate("{}\n", timeout=PATIENCE)
    assert (reader.returncode, said) == (0, "")


def test_it_serves_this_portal_s_tools_with_a_key(portal: RunningServer, keys: Keys) -> None:
    pipe = Pipe(Path(portal.environment["DATA_DIR"]), {**portal.environment, "SONDE_API_KEY": keys.plain})
    answers, _ = pipe.talk(
        *SEED, use("perplexity_models", 3), use("list_research", 4), use("perplexity_ask", 5, query="Why?")
    )
    assert len(answers[2]["result"]["tools"]) == 12
    assert all(not answers[to]["result"]["isError"] for to in (3, 4, 5)), answers


@pytest.mark.parametrize("relays", [False, True])
def test_it_says_that_a_key_opens_nothing(portal: RunningServer, keys: Keys, relays: bool) -> None:
    distant = {"SONDE_URL": portal.url} if relays else {}
    wrong = {"SONDE_API_KEY": keys.plain[:-3] + "abc", **distant}
    pipe = Pipe(Path(portal.environment["DATA_DIR"]), {**portal.environment, **wrong})
    asked = use("perplexity_models", 3)
    answers, _ = pipe.talk(asked) if relays else pipe.talk(*SEED, asked)
    assert answers[3]["result"]["isError"]
    assert "SONDE_API_KEY" in text_of(answers[3])


def test_it_relays_to_a_portal_and_says_when_there_is_none(
    portal: RunningServer, keys: Keys, tmp_path: Path
) -> None:
    relay = Pipe(tmp_path, {"SONDE_URL": portal.url, "SONDE_API_KEY": keys.plain})
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    answers, _ = relay.talk(
        *SEED,
        use("list_research", 3),
        use("perplexity_models", 4),
        call("no/such", to=5),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [3]},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [3]}},
        call("tools/call", to=6, name="größe", arguments={}, _meta=meta),
        call("tools/call", to=7, name="perplexity_models", arguments={}, _meta="none"),
        use("perplexity_models", 8),
    )
    assert set(answers) == {1, 2, 3, 4, 5, 6, 7, 8}
    assert not answers[8]["result"]["isError"]
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"
    assert len(answers[2]["result"]["tools"]) == 12
    assert answers[3]["result"]["structuredContent"]["runs"] is not None
    assert answers[5]["error"]["code"] == -32601
    nowhere = Pipe(tmp_path, {"SONDE_URL": "http://127.0.0.1:9", "SONDE_API_KEY": keys.plain})
    answers, _ = nowhere.talk(*SEED, use("list_research", 3))
    assert "does not answer" in answers[1]["error"]["message"]
    assert "does not answer" in text_of(answers[3])


def test_it_needs_a_key_to_relay(tmp_path: Path) -> None:
    done = Pipe(tmp_path, {"SONDE_URL": "http://127.0.0.1:9"}).run("")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sonde: SONDE_API_KEY")


def test_it_brings_a_worker_for_a_portal_that_is_not_running(tmp_path: Path) -> None:
    """And gives the folder back when there is nothing to do."""
    server = RunningServer(tmp_path, SANDBOX_SECONDS="0.5", RESEARCH_POLL_SECONDS="0.2")
    server.start()
    key = server.api_key
    server.terminate()
    pipe = Pipe(tmp_path / "data", {**server.environment, "SONDE_API_KEY": key})
    answers, _ = pipe.talk(*SEED, use("perplexity_research", 3, query="Why?"))
    assert answers[3]["result"]["structuredContent"]["status"] == "completed"
