"""The web's event stream on a real socket: framing, timing, troubles, and who left when."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.sandbox.web.listener import ASK, Record, blocks, body, cookie, final_text, placed, records
from tests.sandbox_server import SandboxServer

SESSION = cookie("sandbox-max-wire")
PLAIN = "How do tides work?"


@contextmanager
def opened(client: httpx.Client, question: str, **params: Any) -> Iterator[httpx.Response]:
    with client.stream("POST", ASK, json=body(question, **params), headers=SESSION) as answer:
        yield answer


def request(server: SandboxServer, question: str, **params: Any) -> bytes:
    """An ask as it goes over a bare socket; the server closes it in the end."""
    document = json.dumps(body(question, **params)).encode()
    head = [f"POST {ASK} HTTP/1.1", f"host: {urlsplit(server.url).netloc}", f"cookie: {SESSION['cookie']}"]
    head += [
        "connection: close",
        "content-type: application/json",
        f"content-length: {len(document)}",
        "",
        "",
    ]
    return "\r\n".join(head).encode() + document


def reads(server: SandboxServer, question: str) -> list[bytes]:
    """What single reads of a bare socket return, headers included, until the server closes."""
    found = []
    place = urlsplit(server.url)
    with socket.create_connection((str(place.hostname), place.port or 80), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request(server, question))
        while piece := connection.recv(1 << 16):
            found.append(piece)
    return found


def whole(client: httpx.Client, question: str, **params: Any) -> tuple[str, list[Record]]:
    with opened(client, question, **params) as answer:
        text = answer.read().decode()
    return text, records(text)


def broken(client: httpx.Client, question: str, error: type[Exception], patience: float = 0.7) -> str:
    """What came before the stream failed with the given error."""
    received: list[str] = []

    def take() -> None:
        with client.stream("POST", ASK, json=body(question), headers=SESSION, timeout=patience) as answer:
            for piece in answer.iter_text():
                received.append(piece)  # extend would lose what came before the error

    with pytest.raises(error):
        take()
    return "".join(received)


def log(server: SandboxServer) -> dict[str, Any]:
    """The line of the newest ask, once it is closed."""
    until = time.monotonic() + 5
    while (line := server.web_requests(ASK)[0])["ended_at"] is None and time.monotonic() < until:
        time.sleep(0.02)
    return line


def quiet(server: SandboxServer) -> dict[str, Any]:
    """The overview once nothing is open any more."""
    until = time.monotonic() + 5
    while (seen := server.web())["open"] and time.monotonic() < until:
        time.sleep(0.02)
    assert seen["open"] == 0
    return seen


# Framing (§5).


def test_it_ends_lines_with_crlf_and_names_every_record(client: httpx.Client) -> None:
    text, found = whole(client, PLAIN)
    assert text.startswith('event: message\r\ndata: {"')
    assert text.endswith("event: end_of_stream\r\ndata: {}\r\n\r\n")
    assert text.count("\n") == text.count("\r\n")
    assert [record.event for record in found] == ["message"] * (len(found) - 1) + ["end_of_stream"]


def test_it_can_end_lines_with_line_feeds_alone(client: httpx.Client) -> None:
    text, found = whole(client, f"{PLAIN} [sandbox:framing=lf]")
    assert "\r" not in text
    assert found[-1].event == "end_of_stream"


def test_it_can_frame_as_oddly_as_the_rules_allow(client: httpx.Client) -> None:
    text, found = whole(client, f"{PLAIN} [sandbox:framing=odd]")
    assert all(sign in text for sign in ("retry: 3000", "\nid: 0", ": a comment", "event:message", "data:{"))
    assert "event: ping" in text
    names = [record.event for record in found if record.event != "ping"]
    assert names == ["message"] * (len(names) - 1) + ["end_of_stream"]
    frames = [httpx.Response(200, text=record.data).json() for record in found if record.event == "message"]
    assert placed(frames) == final_text(frames[-1])


@pytest.mark.parametrize("size", [1, 7])
def test_it_writes_in_pieces_of_a_few_bytes(server: SandboxServer, size: int) -> None:
    value = "" if size == 7 else f"={size}"
    question = f"Why? [sandbox:dribble{value}] [sandbox:say=SGk]"
    assert max(map(len, chunks(reads(server, question)))) == size


def chunks(found: list[bytes]) -> list[bytes]:
    """The chunks of a body in the chunked encoding: what the server wrote, one by one."""
    rest = b"".join(found).partition(b"\r\n\r\n")[2]
    pieces = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            break
        pieces.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return pieces


def test_it_splits_records_inside_a_character(server: SandboxServer) -> None:
    found = reads(server, f"{PLAIN} [sandbox:split-utf8]")
    halves = [piece for piece in found if not is_utf8(piece)]
    assert len(halves) > 3
    text = b"".join(chunks(found)).decode()
    assert "“who counted" in text
    assert records(text)[-1].event == "end_of_stream"


def is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_it_sends_a_terminal_frame_of_a_megabyte(client: httpx.Client) -> None:
    _, found = whole(client, f"{PLAIN} [sandbox:terminal-kib]")
    assert len(found[-2].data.encode()) >= 1 << 20
    assert max(len(record.data) for record in found[:-2]) < 1 << 16


def test_it_sends_heartbeats_while_it_is_silent(client: httpx.Client) -> None:
    question = f"{PLAIN} [sandbox:first-frame=0.5] [sandbox:heartbeat=0.1]"
    text, found = whole(client, question)
    assert 2 <= text.count(": heartbeat\r\n\r\n") <= 5
    assert text.startswith(": heartbeat")
    assert found[-1].event == "end_of_stream"


# Timing.


def test_it_keeps_to_its_length(client: httpx.Client) -> None:
    arrivals = []
    begin = time.monotonic()
    with opened(client, f"{PLAIN} [sandbox:duration=1]") as answer:
        for line in answer.iter_lines():
            if '"chunks":' in line:
                arrivals.append(time.monotonic() - begin)
    assert 0.1 <= arrivals[0] < 0.8
    assert 1 <= arrivals[-1] < 3


@pytest.mark.parametrize(("marker", "headers_first"), [("slow", False), ("first-frame", True)])
def test_it_can_be_late(client: httpx.Client, marker: str, headers_first: bool) -> None:
    begin = time.monotonic()
    with opened(client, f"{PLAIN} [sandbox:{marker}=1]") as answer:
        headers = time.monotonic() - begin
        next(answer.iter_raw())
        first = time.monotonic() - begin
    assert (headers < 0.8) is headers_first
    assert first >= 1


def test_it_gets_stuck(client: httpx.Client) -> None:
    text = broken(client, f"{PLAIN} [sandbox:stuck]", httpx.ReadTimeout)
    assert '"chunks"' in text
    assert "COMPLETED" not in text


def test_it_never_finishes_a_council_without_models_to_compare(client: httpx.Client) -> None:
    with (
        pytest.raises(httpx.ReadTimeout),
        client.stream(
            "POST",
            ASK,
            json=body("?", model_preference="pplx_agentic_research"),
            headers=SESSION,
            timeout=0.7,
        ) as answer,
    ):
        answer.read()
    found = whole(client, "?", model_preference="pplx_agentic_research", compare_model_preferences=["gpt55"])[
        1
    ]
    assert found[-1].event == "end_of_stream"


def test_it_asks_back_and_waits_for_nobody(client: httpx.Client) -> None:
    begin = time.monotonic()
    params = {"model_preference": "pplx_alpha", "send_back_text_in_streaming_api": True}
    text, found = whole(client, f"{PLAIN} [sandbox:clarify=0.6]", **params)
    assert time.monotonic() - begin >= 0.7
    assert "RESEARCH_CLARIFYING_QUESTIONS" in text
    assert found[-1].event == "end_of_stream"


def test_it_tells_how_long_deep_research_will_take(client: httpx.Client) -> None:
    question = f"{PLAIN} [sandbox:duration=20] [sandbox:end-stream=1]"
    _, found = whole(client, question, model_preference="pplx_alpha")
    plan = blocks(json.loads(found[0].data), "plan")[0]["plan_block"]
    assert (plan["eta_seconds_remaining"], plan["pct_complete"]) == (20, 0)


# Troubles.


@pytest.mark.parametrize("number", [0, 1, 9])
def test_it_cuts_the_connection_after_so_many_events(client: httpx.Client, number: int) -> None:
    text = broken(client, f"{PLAIN} [sandbox:cut-stream={number}]", httpx.RemoteProtocolError)
    assert len(records(text)) == number


def test_it_falls_silent_but_for_heartbeats(client: httpx.Client) -> None:
    question = f"{PLAIN} [sandbox:idle-stream=4] [sandbox:heartbeat=0]"
    assert len(records(broken(client, question, httpx.ReadTimeout))) == 4
    with opened(client, f"{PLAIN} [sandbox:idle-stream=4] [sandbox:heartbeat=0.05]") as answer:
        text = ""
        for piece in answer.iter_text():
            text += piece
            if text.count(": heartbeat") > 5:
                break
    assert len(records(text)) == 4


def test_it_ends_with_an_error_event(client: httpx.Client) -> None:
    _, found = whole(client, f"{PLAIN} [sandbox:error-stream=5]")
    assert len(found) == 6
    assert found[-1] == Record("error", "upstream unavailable")


# Who left, and when.


def test_it_notices_at_once_that_the_client_left_before_the_headers(server: SandboxServer) -> None:
    place = urlsplit(server.url)
    with socket.create_connection((str(place.hostname), place.port or 80)) as connection:
        connection.sendall(request(server, f"{PLAIN} [sandbox:slow=30]"))
        until = time.monotonic() + 5
        while server.web()["open"] == 0 and time.monotonic() < until:
            time.sleep(0.02)
        left = time.time()
    line = log(server)
    assert line["ending"] == "left"
    assert 0 <= line["ended_at"] - left < 2
    assert line["events"] == 0


def test_it_tells_of_a_fault_that_cut_the_connection(server: SandboxServer, client: httpx.Client) -> None:
    for fault in ("cut", "drop"):
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            whole(client, f"{PLAIN} [sandbox:{fault}]")
        assert log(server)["ending"] == "cut"


@pytest.mark.parametrize(
    "question",
    [f"{PLAIN} [sandbox:duration=30]", f"{PLAIN} [sandbox:first-frame=30]", f"{PLAIN} [sandbox:stuck]"],
)
def test_it_notices_at_once_that_the_client_left(
    server: SandboxServer, client: httpx.Client, question: str
) -> None:
    with opened(client, question) as answer:
        assert server.web()["open"] == 1
        assert answer.status_code == 200
        left = time.time()
    line = log(server)
    assert line["ending"] == "left"
    assert 0 <= line["ended_at"] - left < 2
    assert server.web()["open"] == 0


@pytest.mark.parametrize(
    ("marker", "ending"),
    [("", "done"), ("[sandbox:cut-stream=2]", "cut"), ("[sandbox:end-stream=2]", "done")],
)
def test_it_tells_how_an_answer_ended(
    server: SandboxServer, client: httpx.Client, marker: str, ending: str
) -> None:
    try:
        whole(client, f"{PLAIN} {marker}")
    except httpx.RemoteProtocolError:
        assert ending == "cut"
    line = log(server)
    assert line["ending"] == ending
    assert line["events"] == (2 if marker else len(records(whole(client, PLAIN)[0])))


def test_it_counts_what_is_open_by_account_and_in_all(server: SandboxServer, client: httpx.Client) -> None:
    question = body("Why? [sandbox:duration=30]")
    with ExitStack() as open_streams:
        for token in ("sandbox-max-a", "sandbox-max-a", "sandbox-max-b"):
            open_streams.enter_context(client.stream("POST", ASK, json=question, headers=cookie(token)))
        seen = server.web()
    after = quiet(server)
    by_account = {account["name"]: (account["open"], account["peak"]) for account in seen["accounts"]}
    assert by_account == {"sandbox-max-a": (2, 2), "sandbox-max-b": (1, 1)}
    assert (seen["open"], after["peak"]) == (3, 3)
    assert {account["peak"] for account in after["accounts"]} == {2, 1}


def test_it_refuses_an_answer_too_many_for_the_slots(server: SandboxServer, client: httpx.Client) -> None:
    session = cookie("sandbox-slots1-max")
    with client.stream("POST", ASK, json=body("Why? [sandbox:duration=30]"), headers=session):
        refused = client.post(ASK, json=body("Why?"), headers=session)
    quiet(server)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert client.post(ASK, json=body("Why?"), headers=session).status_code == 200


def test_it_keeps_accounts_entries_and_requests_over_a_sigkill(
    server: SandboxServer, client: httpx.Client
) -> None:
    client.get("/api/auth/session", headers=cookie("sandbox-rotating-pro-k"))
    client.post(ASK, json=body(PLAIN, model_preference="gpt55"), headers=cookie("sandbox-pro-k"))
    client.post("/ntfy/topic", content=b"hello")
    server.order("sandbox-pro-k", retired=["grok4"])
    before = (server.web(), server.web_entries(), server.web_requests(), server.messages(), server.counts())
    server.kill()
    server.start()
    after = (server.web(), server.web_entries(), server.web_requests(), server.messages(), server.counts())
    assert before[0]["accounts"][0]["pro"] == 599
    assert [{**account, "peak": 0} for account in before[0]["accounts"]] == after[0]["accounts"]
    assert before[1:] == after[1:]
    assert client.get("/api/auth/session", headers=cookie("sandbox-rotating-pro-k.1")).json()["user"]


async def test_it_holds_many_streams_open_at_once(server: SandboxServer) -> None:
    sent = request(server, "Why? [sandbox:duration=1.5]")
    place = urlsplit(server.url)

    async def listen() -> bytes:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(sent)
        found = await reader.read(-1)
        writer.close()
        return found

    found = await asyncio.gather(*(listen() for _ in range(200)))
    assert all(b"end_of_stream" in answer and b'"status":"COMPLETED"' in answer for answer in found)
    assert quiet(server)["peak"] > 100
