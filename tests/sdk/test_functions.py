"""Function tools by the real SDK, over a socket, in both modes (proxy-contract §9)."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from tests.running_server import RunningServer

pytestmark = pytest.mark.slow
WHOLE: TypeAdapter[ChatCompletion] = TypeAdapter(ChatCompletion)
CHUNK: TypeAdapter[ChatCompletionChunk] = TypeAdapter(ChatCompletionChunk)
RESPONSE: TypeAdapter[Response] = TypeAdapter(Response)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"sku": {"type": "string", "enum": ["DEMO"]}},
    "required": ["sku"],
    "additionalProperties": False,
}
STOCK: Any = {
    "name": "lookup_inventory",
    "description": "Stock of a SKU.",
    "parameters": PARAMETERS,
    "strict": True,
}
QUESTION = "Use lookup_inventory to check the current stock count for DEMO."


class Inventory(BaseModel):
    """The stock count of a SKU."""

    sku: str


def test_the_seeds_function_loop_runs_as_printed(
    by_openai: openai.OpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word by word from the seed's README, but for the client, and the SKU that the sandbox makes up."""
    client = by_openai
    tools: Any = [{
        "type": "function", "name": "lookup_inventory",
        "description": "Read the application's current stock count for a SKU.",
        "parameters": {
            "type": "object", "properties": {"sku": {"type": "string"}},
            "required": ["sku"], "additionalProperties": False,
        },
        "strict": True,
    }]  # fmt: skip
    first = client.responses.create(
        model="gpt", tools=tools, tool_choice="auto",
        input="Use lookup_inventory to check the current stock count for DEMO.",
    )  # fmt: skip
    calls = [item for item in first.output if item.type == "function_call"]
    if not calls:
        raise RuntimeError("The model did not request the inventory lookup")
    results: Any = []
    for call in calls:
        if call.name != "lookup_inventory":
            raise RuntimeError("Unexpected function")
        sku = json.loads(call.arguments)["sku"]
        quantity = {"xxxx": 7}[sku]
        results.append({"type": "function_call_output", "call_id": call.call_id,
                        "output": json.dumps({"sku": sku, "quantity": quantity})})  # fmt: skip
    for event in client.responses.create(
        model="gpt", previous_response_id=first.id, input=results, stream=True,
    ):  # fmt: skip
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
        elif event.type == "response.failed":
            raise RuntimeError(event.response.error)

    assert '"quantity": 7' in capsys.readouterr().out


def test_it_streams_function_calls_to_the_responses_helper(by_openai: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", **openai.pydantic_function_tool(Inventory)["function"]}]
    with by_openai.responses.stream(model="gpt", input=QUESTION, tools=tools) as stream:
        events = list(stream)
        final = stream.get_final_response()

    assert "response.function_call_arguments.delta" in {event.type for event in events}
    [call] = [item for item in final.output if item.type == "function_call"]
    assert call.parsed_arguments == {"sku": "xxxx"}


def test_its_responses_are_valid_to_the_letter(by_openai: openai.OpenAI) -> None:
    asked: Any = {"model": "gpt", "input": QUESTION, "tools": [{"type": "function", **STOCK}]}

    raw = by_openai.responses.with_raw_response.create(**asked)
    with by_openai.responses.with_streaming_response.create(**asked, stream=True) as answer:
        records = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]

    RESPONSE.validate_json(raw.http_response.content)
    for record in records:
        EVENT.validate_json(record)
    assert json.loads(records[-1])["type"] == "response.completed"


def test_it_loops_through_chat_completions(by_openai: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": QUESTION}]
    tools: Any = [{"type": "function", "function": STOCK}]
    raw = by_openai.chat.completions.with_raw_response.create(model="gpt", messages=messages, tools=tools)
    WHOLE.validate_json(raw.http_response.content, strict=True)
    assert raw.headers["x-sonde-experimental"] == "function-tools"
    choice = raw.parse().choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"sku": "DEMO"}

    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": '{"quantity": 7}'}]
    last = by_openai.chat.completions.create(model="gpt", messages=messages, tools=tools)

    assert last.choices[0].finish_reason == "stop"
    assert '{"quantity": 7}' in (last.choices[0].message.content or "")


def test_it_loops_through_the_chat_streaming_helper(by_openai: openai.OpenAI) -> None:
    tools = [openai.pydantic_function_tool(Inventory)]
    messages: Any = [{"role": "user", "content": QUESTION}]
    with by_openai.chat.completions.stream(model="gpt", messages=messages, tools=tools) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message

    assert "tool_calls.function.arguments.done" in kinds
    [call] = message.tool_calls or []
    assert call.function.parsed_arguments == Inventory(sku="xxxx")
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "seven"}]
    with by_openai.chat.completions.stream(model="gpt", messages=messages, tools=tools) as stream:
        stream.until_done()
        assert "seven" in (stream.get_final_completion().choices[0].message.content or "")


def test_its_chunks_are_valid_to_the_letter(by_openai: openai.OpenAI) -> None:
    with by_openai.chat.completions.with_streaming_response.create(
        model="gpt",
        messages=[{"role": "user", "content": f"{QUESTION} [sandbox:bridge=two]"}],
        tools=[{"type": "function", "function": STOCK}],
        stream=True,
        stream_options={"include_usage": True},
    ) as answer:
        records = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]

    assert records.pop() == "[DONE]"
    for record in records:
        CHUNK.validate_json(record, strict=True)


@pytest.mark.parametrize("stream", [False, True])
def test_it_raises_when_the_model_breaks_the_rules(by_openai: openai.OpenAI, stream: bool) -> None:
    asked: Any = {"model": "gpt", "messages": [{"role": "user", "content": "Stock? [sandbox:bridge=fenced]"}]}

    with pytest.raises(openai.InternalServerError) as broken:
        by_openai.chat.completions.create(
            **asked, tools=[{"type": "function", "function": STOCK}], stream=stream
        )

    assert broken.value.code == "tool_protocol_error"
    assert broken.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_it_fails_a_response_stream_when_the_model_breaks_the_rules(by_openai: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", **STOCK}]
    stream = by_openai.responses.create(
        model="gpt", input="Stock? [sandbox:bridge=wrong]", tools=tools, stream=True
    )
    events: list[Any] = list(stream)

    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "tool_protocol_error"


def test_the_validator_finds_nothing_wrong_with_a_running_portal(server: RunningServer) -> None:
    server.environment["SONDE_API_KEY"] = server.api_key
    try:
        checked = server.manage("validate", f"{server.url}/v1")
    finally:
        del server.environment["SONDE_API_KEY"]

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert " 0 warned, 0 failed" in checked.stdout
    assert "PASS RS11 " in checked.stdout
    assert server.api_key not in checked.stdout
