"""What Connect offers, as somebody pastes it: with a key, against a running portal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from portal.pages import setups
from portal.pages.setups import KEY, Snippet
from tests.install_node import install_new_node, install_sdks
from tests.mcp.clients import Keys
from tests.mcp.test_clients import NAMES
from tests.running_server import ROOT, RunningServer

pytestmark = pytest.mark.embedded
PATIENCE = 60.0


def pasted(portal: RunningServer, key: str, kind: str) -> list[tuple[str, Snippet, str]]:
    """Set-up, snippet, and its text with the key in it."""
    return [
        (setup.name, snippet, snippet.text.replace(KEY, key))
        for setup in (*setups.agents(portal.url), *setups.scripts(portal.url))
        for snippet in setup.snippets
        if snippet.kind == kind
    ]


def run(words: list[str], folder: Path) -> str:
    found = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def inspected(portal: RunningServer, keys: Keys) -> Iterator[tuple[str, list[str]]]:
    """What the Inspector is to be told of each set-up for agents: its options."""
    bearer = ["--header", f"Authorization: Bearer {keys.plain}"]
    for name, snippet, text in pasted(portal, keys.plain, "shell"):
        words = shlex.split(text.replace("\\\n", "").replace("~", str(ROOT)))
        if name == "inspector":
            assert words[:2] == ["npx", "@modelcontextprotocol/inspector"]
            yield f"{name}: {snippet.title}", words[2:]
        elif "--header" in words:
            at = words.index("--header")
            yield f"{name}: {snippet.title}", [f"{portal.url}/mcp", *words[at : at + 2]]
        elif "--" in words:
            named = [words[at + 1] for at, word in enumerate(words) if word == "--env"]
            told = [part for pair in named for part in ("-e", pair)]
            yield f"{name}: {snippet.title}", [*words[words.index("--") + 1 :], *told]
    for name, snippet, text in pasted(portal, keys.plain, "json"):
        made = json.loads(text)
        [server] = made.get("mcpServers", made.get("servers")).values()
        if "url" in server:
            yield f"{name}: {snippet.title}", [server["url"], *bearer]
        else:
            args = [str(ROOT / setups.FILE) if word == setups.PATH else word for word in server["args"]]
            told = [part for pair in server["env"].items() for part in ("-e", "=".join(pair))]
            yield f"{name}: {snippet.title}", [server["command"], *args, *told]
    for name, snippet, text in pasted(portal, keys.url, "address"):
        yield f"{name}: {snippet.title}", [text]


def test_it_is_found_by_the_inspector_by_every_set_up(
    portal: RunningServer, keys: Keys, tmp_path: Path
) -> None:
    """All at once: each waits for Node.js to start most of its time."""
    inspector = [install_new_node(), str(install_sdks() / "node_modules/.bin/mcp-inspector")]

    def inspect(options: list[str]) -> tuple[list[str], str]:
        asked = [] if "--method" in options else ["--cli", "--method", "tools/list"]
        environment = {"PATH": os.environ["PATH"], "MCP_INSPECTOR_SECRET_STORE": "memory"}
        found = subprocess.run(
            [*inspector, *asked, *options],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert found.returncode == 0, (options, found)
        return [tool["name"] for tool in json.loads(found.stdout)["tools"]], found.stderr

    set_ups = dict(inspected(portal, keys))
    with ThreadPoolExecutor() as threads:
        found = dict(zip(set_ups, threads.map(inspect, set_ups.values()), strict=True))
    assert len(found) == 10
    assert {name: tools for name, (tools, _) in found.items() if tools != NAMES} == {}
    assert {name: said for name, (_, said) in found.items() if "warnings" in said} == {}


def test_it_writes_javascript_that_node_reads(portal: RunningServer, keys: Keys, tmp_path: Path) -> None:
    found = pasted(portal, keys.plain, "javascript")
    assert len(found) == 2
    for name, _, text in found:
        file = tmp_path / f"{name}.mjs"
        file.write_text(text)
        run([install_new_node(), "--check", str(file)], tmp_path)


def test_it_starts_research_by_every_python_snippet(
    portal: RunningServer, keys: Keys, tmp_path: Path
) -> None:
    said = [
        run([sys.executable, "-c", text], tmp_path) for _, _, text in pasted(portal, keys.plain, "python")
    ]
    assert len(said) == 2
    assert all(line.startswith("resp_") for line in said)


def test_it_starts_research_by_the_curl_snippet(portal: RunningServer, keys: Keys, tmp_path: Path) -> None:
    (text,) = [text for name, _, text in pasted(portal, keys.plain, "shell") if name == "curl"]
    assert json.loads(run(["sh", "-c", text], tmp_path))["status"] == "queued"


async def test_it_lists_the_tools_by_every_configuration(portal: RunningServer, keys: Keys) -> None:
    found = [json.loads(text) for _, _, text in pasted(portal, keys.plain, "json")]
    servers = [next(iter(made.get("mcpServers", made.get("servers")).values())) for made in found]
    assert len(servers) == 4
    for server in servers:
        if "url" in server:
            headers = {
                name: value.replace("${input:sonde-key}", keys.plain)
                for name, value in server["headers"].items()
            }
            async with (
                httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
                Client(streamable_http_client(server["url"], http_client=http)) as client,
            ):
                assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
        else:
            args = [str(ROOT / setups.FILE) if word == setups.PATH else word for word in server["args"]]
            started = StdioServerParameters(command=sys.executable, args=args, env=server["env"])
            async with Client(stdio_client(started)) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == NAMES


async def test_it_lists_the_tools_at_every_address(portal: RunningServer, keys: Keys) -> None:
    for _, _, address in pasted(portal, keys.url, "address"):
        streams = sse_client(address) if address.endswith("/sse") else streamable_http_client(address)
        async with Client(streams, mode="legacy") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == NAMES


async def test_it_fetches_the_file_and_starts_it_as_claude_code_is_told(
    portal: RunningServer, keys: Keys, tmp_path: Path
) -> None:
    (text,) = [
        text
        for name, snippet, text in pasted(portal, keys.plain, "shell")
        if name == "claude-code" and setups.FILE in snippet.title
    ]
    fetch, add = text.replace("\\\n", "").replace("~", str(tmp_path)).splitlines()
    run(shlex.split(fetch), tmp_path)
    words = shlex.split(add)
    told = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--env")
    _, *args = words[words.index("--") + 1 :]
    started = StdioServerParameters(command=sys.executable, args=args, env={**os.environ, **told})
    async with Client(stdio_client(started)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
