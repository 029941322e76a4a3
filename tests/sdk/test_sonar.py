"""Clients of the retired Sonar APIs, aimed at us by their base URL alone (SPEC 4.3)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import perplexity
import pytest

from tests.environment import ROOT
from tests.running_server import RunningServer
from tests.sdk.conftest import PATIENCE
from tests.sdk.scenarios import TOO_LARGE

pytestmark = pytest.mark.slow
QUESTION = "Solid state battery manufacturing, 2026"


def asked(question: str, **more: Any) -> Any:
    messages = [{"role": "user", "content": question}]
    return {"model": "sonar-deep-research", "messages": messages, **more}


def until_ended(client: perplexity.Perplexity, job: str) -> Any:
    until = time.monotonic() + PATIENCE
    while (seen := client.async_.chat.completions.get(job)).status not in ("COMPLETED", "FAILED"):
        assert time.monotonic() < until, f"it is still {seen.status}"
        time.sleep(0.1)
    return seen


@pytest.fixture
def strict(server: RunningServer) -> perplexity.Perplexity:
    return perplexity.Perplexity(
        api_key=server.api_key, base_url=server.url, max_retries=0, _strict_response_validation=True
    )


def test_it_runs_an_asynchronous_job(strict: perplexity.Perplexity) -> None:
    jobs = strict.async_.chat.completions
    created = jobs.create(request=asked(QUESTION, reasoning_effort="low", search_mode="academic"))
    assert (created.status, created.response, created.started_at) == ("CREATED", None, None)

    done = until_ended(strict, created.id)

    assert (done.status, done.created_at, done.error_message) == ("COMPLETED", created.created_at, None)
    assert done.started_at
    assert done.completed_at
    assert done.started_at <= done.completed_at
    assert done.response is not None
    text = done.response.choices[0].message.content
    assert isinstance(text, str)
    assert len(text.split()) > 500
    assert done.response.search_results
    assert done.response.usage
    assert [result.url for result in done.response.search_results] == done.response.citations
    marks = {int(mark) for mark in re.findall(r"\[(\d+)\]", text)}
    assert marks
    assert max(marks) <= len(done.response.search_results)
    assert done.response.usage.cost.total_cost > 0
    assert done.response.usage.num_search_queries


@pytest.mark.parametrize(
    ("marker", "status", "finish"), [("failed", "FAILED", None), ("incomplete", "COMPLETED", "length")]
)
def test_it_ends_a_job_that_does_not_complete(
    strict: perplexity.Perplexity, marker: str, status: str, finish: str | None
) -> None:
    created = strict.async_.chat.completions.create(request=asked(f"[sandbox:{marker}] Why?"))
    done = until_ended(strict, created.id)
    assert done.status == status
    assert (done.response.choices[0].finish_reason if done.response else None) == finish
    assert (done.error_message is None) is (status == "COMPLETED")


def test_it_tells_a_stopped_run_as_a_failed_job(strict: perplexity.Perplexity) -> None:
    created = strict.async_.chat.completions.create(request=asked("[sandbox:stuck] Why?"))
    strict.responses.cancel(created.id)
    assert until_ended(strict, created.id).error_message == "The run was stopped."


def test_it_starts_once_per_idempotency_key(strict: perplexity.Perplexity) -> None:
    jobs, key = strict.async_.chat.completions, f"once-{time.monotonic_ns()}"
    first = jobs.create(request=asked("Why?"), idempotency_key=key)
    assert jobs.create(request=asked("Why?"), idempotency_key=key).id == first.id
    with pytest.raises(perplexity.UnprocessableEntityError) as caught:
        jobs.create(request=asked("How?"), idempotency_key=key)
    assert caught.value.body["error"]["type"] == "idempotency_key_reused"  # type: ignore[index]  # JSON


def test_it_lists_jobs_page_by_page(strict: perplexity.Perplexity) -> None:
    jobs = strict.async_.chat.completions
    made = [jobs.create(request=asked(f"Question {number}?")).id for number in range(3)][::-1]
    first = jobs.list(extra_query={"limit": 2})
    assert [job.id for job in first.requests] == made[:2]
    following = jobs.list(extra_query={"limit": 1, "next_token": first.next_token})
    assert [job.id for job in following.requests] == made[2:]


def chat_of(client: perplexity.Perplexity, question: str = "Why is the sky blue?", **more: Any) -> Any:
    messages: Any = [{"role": "user", "content": question}]
    return client.chat.completions.create(model="sonar-pro", messages=messages, **more)


def test_it_chats_in_sonar_s_shape(strict: perplexity.Perplexity) -> None:
    answer = chat_of(strict)
    assert (answer.model, answer.choices[0].finish_reason) == ("sonar-pro", "stop")
    assert answer.citations == [result.url for result in answer.search_results]
    assert answer.usage.cost.total_cost == 0


@pytest.mark.parametrize("mode", ["full", "concise"])
def test_it_streams_a_chat_in_both_modes(strict: perplexity.Perplexity, mode: Any) -> None:
    chunks = list(chat_of(strict, stream=True, stream_mode=mode))
    said = "".join(chunk.choices[0].delta.content for chunk in chunks)
    assert chunks[-1].choices[0].message.content == said
    assert chunks[-1].usage.cost.request_cost == 0


def test_it_raises_in_the_middle_of_a_stream_that_breaks(strict: perplexity.Perplexity) -> None:
    stream = chat_of(strict, "Why? [sandbox:cut-stream=12] [sandbox:pieces=12]", stream=True)
    assert next(stream).choices
    with pytest.raises(perplexity.APIStatusError, match="broke off"):
        list(stream)


def test_it_raises_each_error_as_its_class(server: RunningServer, strict: perplexity.Perplexity) -> None:
    unknown = "resp_" + "0" * 32
    with pytest.raises(perplexity.BadRequestError, match="/v1/async/sonar"):
        strict.chat.completions.create(**asked("Why?"))
    with pytest.raises(perplexity.BadRequestError, match=r"request\.model"):
        strict.async_.chat.completions.create(request=asked("Why?") | {"model": "sonar"})
    with pytest.raises(perplexity.NotFoundError):
        strict.async_.chat.completions.get(unknown)
    with pytest.raises(perplexity.APIStatusError) as large:
        strict.async_.chat.completions.create(request=asked("x" * TOO_LARGE))
    assert large.value.status_code == 413
    with pytest.raises(perplexity.AuthenticationError) as wrong:
        strict.with_options(api_key="sonde_wrong").async_.chat.completions.list()
    assert wrong.value.body == {
        "error": {
            "message": "Incorrect API key provided. Send it as 'Authorization: Bearer sonde_…'.",
            "type": "invalid_api_key",
            "code": 401,
        }
    }


def test_it_serves_a_stdio_server_that_was_made_for_perplexity(server: RunningServer, tmp_path: Path) -> None:
    """The seed's own set-up: its two variables, its three tools, no word of a portal."""
    start = {"query": f"{QUESTION} [sandbox:think]", "reasoning_effort": "low"}
    with Stdio(server, tmp_path) as tools:
        started = tools.call("pplx_deep_research_start", **start)
        [job] = set(re.findall(r"resp_[0-9a-f]{32}", started))
        report = tools.call("pplx_deep_research_check", job_id=job, wait_seconds=40)
        listed = tools.call("pplx_deep_research_list")

    assert "Status: CREATED" in started
    assert "# Simulated report" in report
    assert "<think>" not in report
    assert f"{job} | COMPLETED" in listed


class Stdio:
    """`manage.py mcp_stdio` with a portal in Perplexity's place, one call at a time."""

    def __init__(self, server: RunningServer, folder: Path) -> None:
        settings = {"PERPLEXITY_API_KEY": server.api_key, "PERPLEXITY_BASE_URL": server.url}
        more = {"PATH": os.environ["PATH"], "SONDE_ENV_FILE": "", "DATA_DIR": str(folder / "data")}
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "mcp_stdio"],
            cwd=ROOT,
            env={**more, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._count = 0

    def __enter__(self) -> Stdio:
        self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=PATIENCE)

    def call(self, tool: str, **arguments: Any) -> str:
        """What the tool says."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text

    def _ask(self, method: str, params: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._count += 1
        frame = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self._process.stdin.write(json.dumps(frame) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["result"]


def test_it_serves_the_original_s_three_calls(server: RunningServer) -> None:
    """Start, check and list as that server makes them, with PERPLEXITY_BASE_URL and the key as its only
    settings; what it reads of the answers is read here (mcp-deep-research §§1-3)."""
    headers = {"Authorization": f"Bearer {server.api_key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        messages = [
            {"role": "system", "content": "Structure it."},
            {"role": "user", "content": f"{QUESTION} [sandbox:think]"},
        ]
        request = {
            "model": "sonar-deep-research",
            "messages": messages,
            "reasoning_effort": "medium",
            "search_mode": "web",
            "search_recency_filter": "month",
            "search_domain_filter": ["-pinterest.com"],
        }
        started = http.post("/v1/async/sonar", json={"request": request}).json()
        assert {"id", "model", "status", "created_at"} <= set(started)
        until = time.monotonic() + PATIENCE
        while (job := http.get(f"/v1/async/sonar/{started['id']}").json())["status"] != "COMPLETED":
            assert time.monotonic() < until, job
            assert job["status"] in ("CREATED", "IN_PROGRESS"), job
            time.sleep(0.1)
        listed = http.get("/v1/async/sonar").json()["requests"]

    content = job["response"]["choices"][0]["message"]["content"]
    report = re.sub(r"<think>[\s\S]*?</think>", "", content).strip()
    assert len(report) < len(content)
    assert report.startswith("#")
    assert all(result["url"] and result["title"] for result in job["response"]["search_results"])
    assert f"{job['response']['usage']['cost']['total_cost']:.4f}" != "0.0000"
    assert job["completed_at"] >= job["started_at"]
    assert started["id"] in {one["id"] for one in listed}
