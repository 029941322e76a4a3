"""`manage.py validate` against a toy server: a good one, and the same with one thing wrong."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from portal.management.commands.validate import key_from, root_of
from portal.running.validation import Step, Validation

Json = dict[str, Any]
KEY = "sonde_toy"
TEXT = "Air scatters blue light."
CHUNK: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "model": "toy",
    "system_fingerprint": None,
}
PART: Json = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
ITEM: Json = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [PART]}
USAGE: Json = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def chunk(delta: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**CHUNK, "created": int(time.time()), "choices": [choice], "usage": None}


def response(status: str = "completed", output: list[Json] | None = None) -> Json:
    done = status == "completed"
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "completed_at": 2 if done else None,
        "status": status,
        "model": "toy",
        "output": [ITEM] if output is None else output,
        "usage": {
            "input_tokens": 1,
            "output_tokens": 2,
            "total_tokens": 3,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        if done
        else None,
        **dict.fromkeys(("error", "incomplete_details", "instructions", "temperature", "top_p")),
        "metadata": {"checked": "yes"},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def events() -> list[Json]:
    place: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    begun = ITEM | {"status": "in_progress", "content": []}
    told: list[Json] = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **place, "part": PART | {"text": ""}},
        {"type": "response.output_text.delta", **place, "delta": TEXT, "logprobs": []},
        {"type": "response.output_text.done", **place, "text": TEXT, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": PART},
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
        {"type": "response.completed", "response": response()},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(told)]


class Toy(ThreadingHTTPServer):
    """Speaks just enough of the API. `broken` names the one thing that it does wrong."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.broken = ""
        self.deleted = False
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Toy

    def do_GET(self) -> None:
        if self.path == "/health":
            return self.say(200, {"status": "down" if self.broken("health") else "ok"})
        if self.path == "/v1/models":
            models = [{"id": "toy", "object": "model", "created": 1, "owned_by": "us"}]
            return self.say(200, {"object": "list", "data": [] if self.broken("models") else models})
        if self.server.deleted and not self.broken("deletion"):
            return self.error(404, "there is none", None)
        return self.say(200, response() | ({"model": "else"} if self.broken("retrieval") else {}))

    def do_DELETE(self) -> None:
        self.server.deleted = True
        self.say(200, {"id": "resp_1", "object": "response", "deleted": True})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.keys.append(self.headers["authorization"])
        if self.headers["authorization"] != f"Bearer {KEY}":
            return self.error(401, "no", None)
        if body.get("messages") == []:
            return self.error(400, "empty", "field" if self.broken("param") else "messages")
        if self.path == "/v1/responses":
            return self.respond(body)
        return self.stream_chat() if body.get("stream") else self.chat()

    def chat(self) -> None:
        if self.broken("down"):
            return self.error(503, "come \x1b[2Jback", None)
        message = {"role": "assistant", "content": "" if self.broken("silent") else TEXT, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        usage = USAGE | ({"total_tokens": 9} if self.broken("usage") else {})
        whole = {**CHUNK, "object": "chat.completion", "created": int(time.time())}
        return self.say(200, whole | {"choices": [choice], "usage": usage})

    def stream_chat(self) -> None:
        told: list[Any] = [chunk({"role": "assistant"}), chunk({"content": TEXT}), chunk({}, "stop")]
        told.append({**chunk({}), "choices": [], "usage": USAGE})
        records = [json.dumps(one) for one in told] + ([] if self.broken("done") else ["[DONE]"])
        self.stream("".join(f"data: {record}\n\n" for record in records))

    def respond(self, body: Json) -> None:
        self.server.deleted = False
        if not body.get("stream"):
            return self.say(200, response())
        told = events()
        if self.broken("events"):
            told[3] = told[3] | {"delta": "Something else"}
        if self.broken("event names"):
            told = [event | {"type": event["type"].replace("response.", "")} for event in told]
        return self.stream(
            "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told)
        )

    def broken(self, what: str) -> bool:
        return self.server.broken == what

    def error(self, status: int, message: str, param: str | None) -> None:
        self.say(status, {"error": {"message": message, "type": "x", "param": param, "code": None}})

    def say(self, status: int, body: Any) -> None:
        self.send(status, "text/html" if self.broken("type") else "application/json", json.dumps(body))

    def stream(self, text: str) -> None:
        self.send(200, "application/json" if self.broken("stream type") else "text/event-stream", text)

    def send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("cache-control", "no-cache")
        self.send_header("www-authenticate", "Bearer")
        self.send_header("content-length", str(len(text.encode())))
        if not self.broken("request id"):
            self.send_header("x-request-id", "req_1")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def running() -> Iterator[Toy]:
    with Toy() as toy:
        thread = threading.Thread(target=toy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield toy
        toy.shutdown()
        thread.join()


@pytest.fixture
def toy(running: Toy) -> Toy:
    running.broken = ""
    return running


def validated(toy: Toy, key: str = KEY) -> list[Step]:
    async def steps() -> list[Step]:
        return [step async for step in Validation(toy.url, key).steps()]

    return asyncio.run(steps())


def failed(steps: list[Step]) -> set[str]:
    return {result.id for step in steps for result in step.results if result.failed}


def test_it_finds_nothing_wrong_with_a_good_server(toy: Toy) -> None:
    steps = validated(toy)

    assert failed(steps) == set()
    assert len(steps) == 7
    assert min(len(step.results) for step in steps) > 5


@pytest.mark.parametrize(
    ("broken", "ids"),
    [
        ("health", {"V1"}),
        ("models", {"M2"}),
        ("param", {"E7"}),
        ("usage", {"C12"}),
        ("silent", {"V2"}),
        ("done", {"CS2"}),
        ("retrieval", {"R17"}),
        ("deletion", {"R18", "-"}),
        ("events", {"RS11"}),
        ("type", {"H2"}),
        ("stream type", {"H3"}),
        ("request id", {"H1"}),
        ("down", {"-"}),
    ],
)
def test_it_names_the_check_that_fails(toy: Toy, broken: str, ids: set[str]) -> None:
    toy.broken = broken

    assert failed(validated(toy)) == ids


def test_it_finds_many_faults_at_once(toy: Toy) -> None:
    toy.broken = "event names"

    assert failed(validated(toy)) >= {"RS2", "RS4", "RS5"}


def test_it_fails_every_step_of_a_server_that_is_not_there() -> None:
    toy = Toy()
    toy.server_close()

    steps = validated(toy)

    assert [failed([step]) for step in steps] == [{"-"}] * 7


def test_it_shows_the_key_to_nobody_but_the_api(toy: Toy) -> None:
    toy.keys.clear()

    validated(toy)

    assert set(toy.keys) == {f"Bearer {KEY}", f"Bearer sonde_aaaaaaaaaa_{'x' * 43}"}


def test_it_prints_each_check_and_ends_well(toy: Toy, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")

    call_command("validate", f"{toy.url}/v1/", key_file=tmp_path / "key")

    said = capsys.readouterr().out
    assert "  PASS C12  usage adds up\n" in said
    assert " passed, 0 warned, 0 failed" in said
    assert KEY not in said


def test_it_exits_with_an_error_and_lets_no_server_command_the_terminal(
    toy: Toy, settings: Settings, capsys: Any
) -> None:
    settings.SONDE_API_KEY = KEY
    toy.broken = "down"

    with pytest.raises(CommandError, match="1 failed"):
        call_command("validate", toy.url)

    said = capsys.readouterr().out
    assert "FAIL -    it answers with 200: status 503: come \\x1b[2Jback" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "url", ["", "localhost", "ftp://a", "http://", "http://a:x", "http://u:p@a", "http://a?b=c"]
)
def test_it_refuses_what_is_no_address(url: str) -> None:
    with pytest.raises(CommandError, match=r"^URL must"):
        root_of(url)


@pytest.mark.parametrize("url", ["http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/"])
def test_it_takes_the_address_that_sdks_take(url: str) -> None:
    assert root_of(url) == "http://a:1"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", "ключ".encode(), b"\xff", b"x" * 2000])
def test_it_refuses_what_is_no_key_and_never_shows_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)

    with pytest.raises(CommandError) as refused:
        key_from(tmp_path / "key")
    assert "two words" not in str(refused.value)


def test_it_wants_a_key_from_somewhere(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SONDE_API_KEY = ""
    monkeypatch.setattr("sys.stdin", StringIO())

    with pytest.raises(CommandError, match="there is no key"):
        key_from(None)
    with pytest.raises(CommandError, match="No such file"):
        key_from(tmp_path / "none")
