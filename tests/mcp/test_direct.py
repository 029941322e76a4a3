"""The `pplx_*` tools straight on Perplexity's API, over a sandbox of it (mcp-deep-research §§2-4, 6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from portal.mcp import direct
from portal.mcp.direct import DirectToolbox
from portal.wire.tools import ToolResult
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.embedded


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "POLL_SECONDS", 0.05)


async def silent(done: float, total: float | None, words: str) -> None:
    """Nobody wants to know."""


def use(url: str, *calls: tuple[str, dict[str, Any]], key: str = SandboxServer.key) -> list[ToolResult]:
    """Calls of one process, one after the other. `JOB` in an argument is the last job that was started."""

    async def run() -> list[ToolResult]:
        box, results, job = DirectToolbox(key, url), [], ""
        for verb, given in calls:
            arguments = {name: job if value == "JOB" else value for name, value in given.items()}
            results.append(await box.call(None, f"pplx_deep_research_{verb}", arguments, silent))
            job = job_of(results[-1]) or job
        await box.close()
        return results

    return asyncio.run(run())


def job_of(result: ToolResult) -> str:
    lines = [line for line in result.text.splitlines() if line.startswith("Job id: ")]
    return lines[0].removeprefix("Job id: ") if lines else ""


def start(query: str = "Why?", **more: Any) -> tuple[str, dict[str, Any]]:
    return "start", {"query": query, **more}


def check(wait: float = 10, **more: Any) -> tuple[str, dict[str, Any]]:
    return "check", {"job_id": "JOB", "wait_seconds": wait, **more}


def test_it_starts_checks_and_lists(sandbox: SandboxServer) -> None:
    begun, running, done, listed = use(
        sandbox.url,
        start("Why? [sandbox:duration=1]", reasoning_effort="low"),
        check(0),
        check(),
        ("list", {}),
    )
    assert "Effort: low" in begun.text
    assert "Elapsed: 0m" in running.text
    assert "# Deep research result" in done.text
    assert "Model: sonar-deep-research" in done.text
    assert job_of(begun) in listed.text
    assert not any(one.is_error for one in (begun, running, done, listed))


def test_it_goes_on_with_the_agent_api_where_the_old_one_is_retired(sandbox: SandboxServer) -> None:
    question = "Why? [sandbox:sonar.retired]"
    begun, done, listed = use(sandbox.url, start(question), check(), ("list", {"status": "COMPLETED"}))
    assert job_of(begun).startswith("resp_")
    assert "## Sources\n\n[1] [" in done.text
    assert "Cost: $" in done.text
    assert job_of(begun) in listed.text
    assert sandbox.counts().agent_submissions(question) == 1


@pytest.mark.parametrize("marker", ["failed", "failed-silent"])
def test_it_tells_why_a_job_failed(sandbox: SandboxServer, marker: str) -> None:
    _, ended = use(sandbox.url, start(f"Why? [sandbox:{marker}]"), check())
    assert ended.is_error
    assert ("(no error message given)" in ended.text) == (marker == "failed-silent")


def test_it_recovers_sources_where_none_are_returned(sandbox: SandboxServer) -> None:
    _, done = use(sandbox.url, start("Why? [sandbox:no-sources]"), check())
    assert "# Deep research result" in done.text
    assert "recovered from the report text" in done.text or "nothing in it is attributed" in done.text


def test_it_knows_no_job_that_is_not_there(sandbox: SandboxServer) -> None:
    [result] = use(sandbox.url, ("check", {"job_id": "nothing"}))
    assert result.is_error
    assert "seven days" in result.text


def test_it_waits_for_a_limit_to_pass_as_long_as_it_may(sandbox: SandboxServer) -> None:
    _, done = use(sandbox.url, start("Why? [sandbox:poll-rate-limit=3]"), check())
    assert "# Deep research result" in done.text
    _, refused = use(sandbox.url, start("Why not? [sandbox:poll-rate-limit=3]"), check(0))
    assert refused.is_error
    assert "rate limited" in refused.text


def test_it_says_that_the_key_is_missing(sandbox: SandboxServer) -> None:
    [result] = use(sandbox.url, start(), key="")
    assert result.is_error
    assert "PERPLEXITY_API_KEY" in result.text


def test_it_names_what_is_wrong_with_a_call(sandbox: SandboxServer) -> None:
    wrong, unknown, other = use(sandbox.url, start("  "), start(colour="blue"), ("stop", {}))
    assert "query" in wrong.text
    assert "colour is no argument" in unknown.text
    assert "pplx_deep_research_start, pplx_deep_research_check" in other.text
    assert sandbox.counts().submissions == ()


def test_it_tells_a_dead_network_from_slow_research() -> None:
    [result] = use("http://127.0.0.1:9", ("check", {"job_id": "a"}))
    assert result.is_error
    assert "network error" in result.text
    assert "GET /v1/async/sonar/a" in result.text


class Upstream(BaseHTTPRequestHandler):
    """Answers every request the same."""

    status: ClassVar[int] = 200
    headers_sent: ClassVar[dict[str, str]] = {}
    body: ClassVar[bytes] = b""
    delay: ClassVar[float] = 0

    def do_GET(self) -> None:
        self.send_response(self.status)
        for name, value in {**self.headers_sent, "Content-Length": str(len(self.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def answer(monkeypatch: pytest.MonkeyPatch, status: int, body: object, **headers: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    for name, value in (("status", status), ("body", raw), ("headers_sent", headers)):
        monkeypatch.setattr(Upstream, name, value)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error": {"message": "no"}}, "rejected (401)"),
        (403, {"error": {"message": "Account closed."}}, "Account closed."),
        (429, {"error": {"message": "slow"}}, "rate limited (429)"),
        (
            500,
            {"error": {"message": "Broken pplx-abcdef123456."}},
            "500 to GET /v1/async/sonar/j: Broken pplx-***.",
        ),
        (502, b"<html>bad gateway</html>", "502"),
        (200, b"<html>", "not JSON"),
        (200, b"[]", "not JSON"),
    ],
)
def test_it_tells_errors_to_whoever_has_to_mend_them(
    upstream: str, monkeypatch: pytest.MonkeyPatch, status: int, body: object, words: str
) -> None:
    answer(monkeypatch, status, body)
    [result] = use(upstream, ("check", {"job_id": "j"}))
    assert result.is_error
    assert words in result.text
    assert "Traceback" not in result.text


def test_it_says_how_long_to_wait(upstream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, 429, {}, **{"Retry-After": "7"})
    [result] = use(upstream, start())
    assert "Wait 7 seconds" in result.text


@pytest.mark.parametrize(
    "content", [None, "", [{"type": "text", "text": "It "}, {"type": "text", "text": "scatters"}]]
)
def test_it_reads_whatever_stands_where_the_report_should(
    upstream: str, monkeypatch: pytest.MonkeyPatch, content: object
) -> None:
    choice = {"message": {"content": content}}
    job = {
        "id": "j",
        "status": "COMPLETED",
        "response": {"choices": [choice], "citations": ["https://c.org"]},
    }
    answer(monkeypatch, 200, job)
    [result] = use(upstream, ("check", {"job_id": "j"}))
    assert not result.is_error
    assert ("It scatters" if content else "(empty response body)") in result.text
    assert "[1] https://c.org" in result.text
