"""A client of the web backend in the manner of a browser, and a plain reading of what it answers.

It reads as the reference says and as simply as it can; it is no parser of the product's.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any

import httpx

NAME = "__Secure-next-auth.session-token"
ASK = "/rest/sse/perplexity_ask"
SEED_LIST = [
    "answer_modes", "media_items", "knowledge_cards", "inline_entity_cards", "place_widgets",
    "finance_widgets", "sports_widgets", "shopping_widgets", "search_result_widgets",
]  # fmt: skip
PARAMS: dict[str, Any] = {
    "attachments": [],
    "frontend_uuid": "11111111-1111-4111-8111-111111111111",
    "frontend_context_uuid": "22222222-2222-4222-8222-222222222222",
    "is_incognito": True,
    "language": "en-US",
    "last_backend_uuid": None,
    "mode": "concise",
    "model_preference": "pplx_pro",
    "search_focus": "internet",
    "source": "default",
    "sources": ["web"],
    "send_back_text_in_streaming_api": False,
    "supported_block_use_cases": SEED_LIST,
    "use_schematized_api": True,
    "version": "2.18",
}
Frame = dict[str, Any]


def said(text: str) -> str:
    """The marker that makes the sandbox answer exactly this."""
    return f"[sandbox:say={base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')}]"


def cookie(token: str) -> dict[str, str]:
    return {"cookie": f"{NAME}={token}"}


def body(question: str, **params: Any) -> dict[str, Any]:
    return {"query_str": question, "params": {**PARAMS, **params}}


@dataclass(frozen=True, slots=True)
class Record:
    event: str
    data: str


def records(text: str) -> list[Record]:
    """The records of an event stream; comments fall away, data lines are joined."""
    found = []
    for block in re.split(r"\n\n", text.replace("\r\n", "\n")):
        event, data = "message", []
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name == "event":
                event = value.removeprefix(" ")
            elif name == "data":
                data.append(value.removeprefix(" "))
        if data:
            found.append(Record(event, "\n".join(data)))
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `frames` are its `message` records, as far as they are JSON objects."""

    response: httpx.Response
    records: list[Record] = field(default_factory=list)

    @property
    def frames(self) -> list[Frame]:
        return [json.loads(record.data) for record in self.records if record.event == "message"]

    @property
    def last(self) -> Frame:
        return self.frames[-1]

    @property
    def ended(self) -> bool:
        return self.records[-1].event == "end_of_stream"

    @property
    def text(self) -> str:
        return final_text(self.last)

    @property
    def entry(self) -> str:
        found: str = self.frames[0]["backend_uuid"]
        return found


def blocks(frame: Frame, usage: str) -> list[Frame]:
    return [block for block in frame.get("blocks", ()) if block["intended_usage"] == usage]


def final_text(frame: Frame) -> str:
    """The answer on a last frame, from whatever place it stands in."""
    for usage in ("ask_text", "ask_text_0_markdown"):
        for block in blocks(frame, usage):
            return str(block["markdown_block"]["answer"])
    for block in blocks(frame, "workflow_root"):
        for step in block["workflow_block"]["steps"]:
            for item in step["items"]:
                if item["type"] == "WORKFLOW_ITEM_TEXT":
                    return str(item["payload"]["text_payload"]["text"])
    return step_answer(frame["text"]) if "text" in frame else ""


def step_answer(text: str) -> str:
    """The answer inside a `text` member in its usual form; "" before there is one."""
    for step in json.loads(text):
        if step["step_type"] == "FINAL":
            return str(json.loads(step["content"]["answer"])["answer"])
    return ""


def placed(frames: list[Frame], usage: str = "ask_text") -> str:
    """The text of one track, its pieces placed by their offsets."""
    pieces: dict[int, str] = {}
    for frame in frames:
        for block in blocks(frame, usage):
            if "markdown_block" in block:
                begin = block["markdown_block"]["chunk_starting_offset"]
                for number, chunk in enumerate(block["markdown_block"]["chunks"]):
                    pieces[begin + number] = chunk
    return "".join(pieces[number] for number in sorted(pieces))


def is_page(answer: httpx.Response) -> bool:
    return answer.headers["content-type"].startswith("text/html") and "<html" in answer.text


def is_challenge(answer: httpx.Response) -> bool:
    signs = ("challenge-platform", "__cf_chl_", "/cdn-cgi/challenge-platform/")
    return (
        is_page(answer)
        and answer.headers["cf-mitigated"] == "challenge"
        and all(sign in answer.text for sign in signs)
    )


class WebVisitor:
    """Asks with one session token."""

    def __init__(self, client: httpx.AsyncClient, token: str = "sandbox-max-tester") -> None:
        self.client, self.token = client, token

    def as_(self, token: str) -> WebVisitor:
        return WebVisitor(self.client, token)

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = cookie(self.token) if self.token else {}
        return await self.client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)

    async def ask(self, question: str, **params: Any) -> Answer:
        """The answer to a question, however it ends."""
        response = await self.send("POST", ASK, json=body(question, **params))
        return Answer(response, records(response.text) if response.status_code == 200 else [])

    async def session(self) -> httpx.Response:
        return await self.send("GET", "/api/auth/session")

    async def quota(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.send("GET", "/rest/rate-limit/all")).json()
        return found

    async def control(self, path: str = "", **given: Any) -> Any:
        """A call through the control door; anything given makes it a POST."""
        address = f"/_sandbox{path}"
        if given:
            answer = await self.client.post(address, json=given)
        else:
            answer = await self.client.get(address)
        assert answer.status_code == 200, answer.text
        return answer.json()
