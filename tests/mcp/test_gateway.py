"""The door of `/mcp`, as HTTP sees it (mcp-server §§1, 4, 6)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest
from pytest_django.fixtures import Settings

from portal.mcp.gateway import Gateway
from tests.api_client import Client
from tests.mcp.clients import ACCEPT, Keys, call
from tests.mcp.conftest import keys_of
from tests.running_server import RunningServer

pytestmark = pytest.mark.embedded
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
INITIALIZE = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture
def http(portal: RunningServer, keys: Keys) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {keys.plain}", **ACCEPT}
    with httpx.Client(base_url=portal.url, headers=headers, timeout=30) as client:
        yield client


def message_of(answer: httpx.Response) -> dict[str, Any]:
    """The one message of an answer, whether it came as an event or as JSON."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        [line] = [line for line in answer.text.splitlines() if line.startswith("data: ")]
        return dict(json.loads(line[6:]))
    return dict(answer.json())


def modern(method: str, **params: Any) -> dict[str, Any]:
    return call(method, **params, _meta=META)


def heads(method: str, name: str = "") -> dict[str, str]:
    told = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    return {**told, "Mcp-Name": name} if name else told


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [*((one, one) for one in LEGACY), (MODERN, "2025-11-25"), ("1999-01-01", "2025-11-25")],
)
def test_it_agrees_on_each_legacy_revision(http: httpx.Client, asked: str, agreed: str) -> None:
    answer = http.post("/mcp", json=call("initialize", protocolVersion=asked, **INITIALIZE))
    result = message_of(answer)["result"]
    assert (result["protocolVersion"], result["serverInfo"]["name"]) == (agreed, "sonde")
    assert set(result["capabilities"]) == {"tools", "resources", "prompts"}


def test_it_lets_a_client_in_that_opens_without_its_name(http: httpx.Client) -> None:
    answer = http.post("/mcp", json=call("initialize", protocolVersion="2025-06-18", capabilities={}))
    assert message_of(answer)["result"]["protocolVersion"] == "2025-06-18"


def test_it_tells_modern_clients_what_it_speaks(http: httpx.Client) -> None:
    answer = http.post("/mcp", json=modern("server/discover"), headers=heads("server/discover"))
    result = message_of(answer)["result"]
    assert result["supportedVersions"] == [MODERN]
    assert result["resultType"] == "complete"
    assert result["capabilities"]["tools"] == {"listChanged": False}


def test_it_says_how_long_the_list_of_tools_is_good(http: httpx.Client) -> None:
    result = message_of(http.post("/mcp", json=modern("tools/list"), headers=heads("tools/list")))["result"]
    assert (result["ttlMs"], result["cacheScope"]) == (300_000, "private")
    [start] = [tool for tool in result["tools"] if tool["name"] == "start_research"]
    assert "30m" in start["inputSchema"]["properties"]["preset"]["enum"]


@pytest.mark.parametrize(
    ("headers", "meta", "status", "code"),
    [
        ({"MCP-Protocol-Version": MODERN}, META, 400, -32020),
        (
            {"MCP-Protocol-Version": "2027-01-01", "Mcp-Method": "tools/list"},
            {**META, "io.modelcontextprotocol/protocolVersion": "2027-01-01"},
            400,
            -32022,
        ),
    ],
)
def test_it_refuses_modern_requests_that_contradict_themselves(
    http: httpx.Client, headers: dict[str, str], meta: dict[str, Any], status: int, code: int
) -> None:
    answer = http.post("/mcp", json=call("tools/list", _meta=meta), headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    if code == -32022:
        assert error["data"]["supported"] == [MODERN]


def test_it_takes_no_space_for_a_part_of_a_header(portal: RunningServer, keys: Keys) -> None:
    """RFC 9110 §5.5. Our own client would not send it."""
    told = heads("tools/call", "  perplexity_models\t ")
    headers = {"Authorization": f"Bearer {keys.plain}", "Content-Type": "application/json", **ACCEPT, **told}
    body = json.dumps(modern("tools/call", name="perplexity_models"))
    with contextlib.closing(HTTPConnection("127.0.0.1", portal.port, timeout=30)) as connection:
        connection.request("POST", "/mcp", body, headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()


def test_it_names_a_method_that_it_does_not_have(http: httpx.Client) -> None:
    answer = http.post("/mcp", json=modern("no/such"), headers=heads("no/such"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)
    legacy = message_of(http.post("/mcp", json=call("no/such")))
    assert legacy["error"]["message"] == "Method not found: no/such"


def test_it_calls_a_tool_without_any_handshake(http: httpx.Client) -> None:
    """As the seed's curl does."""
    answer = http.post("/mcp", json=call("tools/call", name="perplexity_models", arguments={}))
    result = message_of(answer)["result"]
    assert result["isError"] is False
    assert result["structuredContent"]["default"]


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", -32700), (b"\xff", -32700), (b"[]", -32600), (b"[{}]", -32600), (b"{}", -32600), (b"3", -32600)],
)
def test_it_says_what_is_no_message(http: httpx.Client, body: bytes, code: int) -> None:
    answer = http.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["id"]) == (code, None)


def test_it_takes_no_body_larger_than_rest_does(http: httpx.Client) -> None:
    answer = http.post("/mcp", json=call("ping", padding="x" * 1_100_000))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")


def test_it_needs_both_kinds_of_answer_to_be_accepted(http: httpx.Client) -> None:
    answer = http.post("/mcp", json=call("ping"), headers={"Accept": "application/json"})
    assert answer.status_code == 406


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_it_offers_no_stream_of_its_own(http: httpx.Client, method: str) -> None:
    answer = http.request(method, "/mcp")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/mcp"),
        ("POST", "/mcp"),
        ("GET", "/sse"),
        ("POST", "/messages/?session_id=00"),
        ("POST", "/messages?session_id=00"),
        ("POST", "/mcp/mcp"),
        ("GET", "/sse/sse"),
        ("POST", "/{plain}/mcp"),
        ("GET", "/{plain}/sse"),
        ("POST", "/{plain}/messages/?session_id=00"),
        ("POST", "/sonde_aaaaaaaaaa_{secret}/mcp"),
    ],
)
def test_it_asks_for_a_key_and_takes_none_from_an_address_that_was_not_made_for_it(
    portal: RunningServer, keys: Keys, method: str, path: str
) -> None:
    address = portal.url + path.format(plain=keys.plain, secret="a" * 43)
    answer = httpx.request(method, address, headers=ACCEPT)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert keys.plain not in answer.text


def test_it_needs_the_scope(portal: RunningServer, keys: Keys) -> None:
    answer = httpx.post(f"{portal.url}/mcp", headers={"x-api-key": keys.shut, **ACCEPT}, json=call("ping"))
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


def test_it_opens_the_door_to_a_url_key_in_a_header_too(portal: RunningServer, keys: Keys) -> None:
    answer = httpx.post(f"{portal.url}/mcp", headers={"x-api-key": keys.url, **ACCEPT}, json=call("ping"))
    assert message_of(answer)["result"] == {}


def test_it_shows_the_same_tools_to_a_key_that_opens_none_of_them(
    portal: RunningServer, keys: Keys, http: httpx.Client
) -> None:
    bare = {"x-api-key": keys.bare, **ACCEPT}
    lists = [
        message_of(httpx.post(f"{portal.url}/mcp", headers=headers, json=call("tools/list")))["result"]
        for headers in (bare, dict(http.headers))
    ]
    assert lists[0] == lists[1]
    for name in ("perplexity_ask", "start_research"):
        asked = call("tools/call", name=name, arguments={"query": "Why?"})
        result = message_of(httpx.post(f"{portal.url}/mcp", headers=bare, json=asked))["result"]
        assert result["isError"]
        assert result["structuredContent"]["error"]["code"] == "forbidden"
        assert "lacks the scope" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "{portal}"}, 200),
        ({}, 200),
    ],
)
def test_it_is_not_to_be_led_astray(
    portal: RunningServer, http: httpx.Client, headers: dict[str, str], status: int
) -> None:
    own = {name: value.format(portal=portal.url) for name, value in headers.items()}
    assert http.post("/mcp", json=call("ping"), headers=own).status_code == status


def test_it_leaves_no_trace_of_where_it_was_called_from(portal: RunningServer, keys: Keys) -> None:
    answer = httpx.post(f"{portal.url}/{keys.url}/mcp", headers=ACCEPT, json=call("ping"))
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "no-store" in answer.headers["cache-control"]
    assert answer.headers["x-request-id"]
    assert keys.url not in portal.output()


async def test_it_counts_requests_as_rest_does_and_tells_a_tool_s_caller(
    portal: RunningServer, keys: Keys
) -> None:
    headers = {"Authorization": f"Bearer {keys.slow}", **ACCEPT}
    asked = call("tools/call", name="list_research", arguments={})
    async with httpx.AsyncClient(base_url=portal.url, headers=headers) as http:
        allowed = [await http.post("/mcp", json=asked) for _ in range(3)]
        refused = await http.post("/mcp", json=asked)
        other = await http.post("/mcp", json=call("tools/list"))
        rest = await http.get("/v1/agent")
    assert [message_of(one)["result"]["isError"] for one in allowed] == [False] * 3
    assert allowed[0].headers["x-ratelimit-limit-requests"] == "3"
    told = message_of(refused)["result"]
    assert told["isError"]
    assert told["structuredContent"]["error"]["code"] == "rate_limit_exceeded"
    assert "Try again in" in told["content"][0]["text"]
    assert (other.status_code, rest.status_code) == (429, 429)
    assert other.headers["retry-after"]


def test_it_lets_pages_of_configured_origins_call(settings: Settings) -> None:
    settings.CORS_ORIGINS = (origin := "https://app.example.org",)
    client = Client(Gateway())
    asks = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    early = client.request("OPTIONS", "/mcp", headers=asks)
    assert early.status_code == 204
    assert early.headers["access-control-allow-origin"] == origin
    assert "Authorization" in early.headers["access-control-allow-headers"]
    foreign = client.request("POST", "/mcp", headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert "access-control-allow-origin" not in foreign.headers


@pytest.mark.parametrize("path", ["/secret/mcp", "/secret/sse", "/secret/messages", "/secret/messages/"])
async def test_it_masks_the_key_in_the_server_s_own_record_of_a_request(path: str) -> None:
    scope: dict[str, Any] = {
        "type": "http",
        "method": "OPTIONS",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await Gateway()(scope, send, send)  # type: ignore[arg-type]  # nothing is received
    assert scope["path"].startswith("/***/")
    assert b"secret" not in scope["raw_path"]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, str]]:
    """A portal to be stopped, and a key for its addresses."""
    with RunningServer(tmp_path_factory.mktemp("own"), SANDBOX_SECONDS="60") as server:
        yield server, keys_of(server).url


@pytest.mark.slow
async def test_it_ends_its_streams_at_once_and_answers_whoever_waits(own: tuple[RunningServer, str]) -> None:
    """What only waits does not use up the grace that a server which stops gives to work."""
    server, url = own
    if server.process is None:
        server.start()
    async with (
        httpx.AsyncClient(base_url=server.url, headers=ACCEPT, timeout=60) as http,
        http.stream("GET", f"/{url}/sse") as idle,
        http.stream("GET", f"/{url}/sse") as busy,
    ):
        nothing, answers = idle.aiter_lines(), busy.aiter_lines()
        await address_of(nothing)
        address = await address_of(answers)
        arguments = {"question": "Why?", "preset": "2m", "idempotency_key": "stop"}
        started = await http.post(
            f"/{url}/mcp", json=call("tools/call", name="start_research", arguments=arguments)
        )
        run = message_of(started)["result"]["structuredContent"]["id"]
        waits = {"name": "pplx_deep_research_check", "arguments": {"job_id": run, "wait_seconds": 40}}
        asked = call("tools/call", **waits)
        for message in (call("initialize", to=0, protocolVersion="2025-06-18", **INITIALIZE), READY, asked):
            assert (await http.post(f"/{url}/{address}", json=message)).status_code == 202
        async with http.stream("POST", f"/{url}/mcp", json=asked) as posted:
            os.kill(server.pid, signal.SIGTERM)
            told = [await rest_of(answers), (await posted.aread()).decode(), await rest_of(nothing)]
    assert server.wait() == 0
    assert ["Call pplx_deep_research_check again" in one for one in told] == [True, True, False]
    assert "graceful shutdown exceeded" not in server.output()


async def address_of(lines: AsyncIterator[str]) -> str:
    """Of an event stream that has just begun: where its messages go."""
    assert await anext(lines) == "event: endpoint"
    return (await anext(lines)).removeprefix("data: ")


async def rest_of(lines: AsyncIterator[str]) -> str:
    return "\n".join([line async for line in lines])


@pytest.mark.slow
def test_it_ends_with_a_stream_open_and_tells_no_log_the_key(own: tuple[RunningServer, str]) -> None:
    """`uvicorn portal.asgi:application` would log every request; `up` logs none."""
    server, url = own
    if server.process is not None:
        server.terminate()
    command = ["-m", "uvicorn", "portal.asgi:application", "--port", str(server.port)]
    server.command = [sys.executable, *command, "--timeout-graceful-shutdown", "2"]
    server.launch()
    try:
        until_up(server)
        with (
            httpx.Client(base_url=server.url, headers=ACCEPT, timeout=60) as http,
            http.stream("GET", f"/{url}/sse") as stream,
        ):
            assert next(stream.iter_lines()) == "event: endpoint"
            answer = http.post(f"/{url}/mcp", json=call("ping"))
            wrong = http.post(f"/{url[:-3]}abc/mcp", json=call("ping"))
            os.kill(server.pid, signal.SIGTERM)
            assert server.has_ended(20)
    finally:
        server.close()
        server.command = None
    assert (answer.status_code, wrong.status_code) == (200, 401)
    assert url[:-3] not in server.output()
    assert "Traceback" not in server.output()


def until_up(server: RunningServer) -> None:
    for _ in range(300):
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"{server.url}/health")
            return
        time.sleep(0.1)
    raise AssertionError(server.output())
