from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from portal.wire.errors import Problem
from portal.wire.sse import SseDecoder
from proxy.protocol.chat_stream import ChatFold, ChatHead, ChatStream, Closing, error_frame, our_member, usage
from proxy.protocol.delta import (
    Citation,
    Delta,
    Done,
    Fault,
    FaultKind,
    ModelUsed,
    Progress,
    Reasoning,
    Source,
    Text,
)
from proxy.protocol.verdicts import problem_of
from tests.proxy.protocol.samples import SAMPLES, Sample, last_of, read
from tests.tables import of_each

HEAD = ChatHead("chatcmpl-0123456789ab", 1_790_000_000, "gpt")
PAGE = Source("https://a.example/harbour", "Harbour guide")
DELTAS: list[Delta] = [
    Reasoning("searching", "tides"),
    Progress(10, None),
    Text('High "tide"\n'),
    Reasoning("found", PAGE.url, PAGE.title),
    Text("is at 06:40 🌊."),
]
ANSWER = 'High "tide"\nis at 06:40 🌊.'
DONE = Done(ANSWER, (PAGE,), citations=(Citation(12, 22, PAGE),))
CLOSING = Closing(40, ("[Substituted by Perplexity with GPT-5 Nano]", "[Remaining Pro Search: 5]"))


def frames(stream: bytes) -> list[str]:
    records = SseDecoder().feed(stream)
    assert all(record.event == "message" for record in records)
    return [record.text for record in records]


def chunks(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in frames(stream) if frame != "[DONE]"]


def stream_of(
    deltas: list[Delta], done: Done = DONE, closing: Closing = CLOSING, head: ChatHead = HEAD
) -> bytes:
    stream = ChatStream(head)
    return b"".join(stream.encode([delta]) for delta in deltas) + stream.finish(done, closing)


def deltas_in(stream: bytes) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks(stream) if chunk["choices"]]


def joined(stream: bytes, name: str) -> str:
    return "".join(delta.get(name, "") for delta in deltas_in(stream))


def test_it_streams_in_the_order_of_the_contract() -> None:
    assert deltas_in(stream_of(DELTAS)) == [
        {"role": "assistant"},
        {"reasoning_content": "Searching: tides\n"},
        {"content": 'High "tide"\n'},
        {"reasoning_content": "Found: [Harbour guide](https://a.example/harbour)\n"},
        {"content": "is at 06:40 🌊."},
        {"content": "\n\n[Substituted by Perplexity with GPT-5 Nano]\n\n[Remaining Pro Search: 5]"},
        {
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {
                        "start_index": 12,
                        "end_index": 22,
                        "url": "https://a.example/harbour",
                        "title": "Harbour guide",
                    },
                }
            ]
        },
        {},
    ]


def test_it_ends_with_stop_and_done() -> None:
    stream = stream_of(DELTAS)

    assert frames(stream)[-1] == "[DONE]"
    assert frames(stream).count("[DONE]") == 1
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks(stream)]
    assert reasons[-1] == "stop"
    assert set(reasons[:-1]) == {None}


def test_it_repeats_the_same_head_in_every_chunk() -> None:
    for chunk in chunks(stream_of(DELTAS)):
        assert chunk["id"] == HEAD.id
        assert chunk["object"] == "chat.completion.chunk"
        assert chunk["created"] == HEAD.created
        assert chunk["model"] == "gpt"
        assert chunk["system_fingerprint"] is None
        assert (chunk["choices"][0]["index"], chunk["choices"][0]["logprobs"]) == (0, None)


def test_it_writes_no_event_lines() -> None:
    assert all(line.startswith(b"data: ") for line in stream_of(DELTAS).split(b"\n") if line)


def test_it_gives_the_chunks_that_the_sdk_knows() -> None:
    for chunk in chunks(stream_of(DELTAS, head=ChatHead(HEAD.id, 1, "gpt", include_usage=True))):
        ChatCompletionChunk.model_validate(chunk, strict=True)


def test_it_commits_to_nothing_before_there_is_something_to_say() -> None:
    stream = ChatStream(HEAD)

    assert stream.encode([Progress(1, 2), DONE]) == b""
    assert not stream.started
    assert stream.encode([Text("x")]).startswith(b"data: ")
    assert stream.started


def test_it_writes_one_piece_for_all_deltas_of_a_read() -> None:
    apart = ChatStream(HEAD)

    assert ChatStream(HEAD).encode(DELTAS) == b"".join(apart.encode([delta]) for delta in DELTAS)


def test_it_tells_usage_only_when_asked() -> None:
    plain = stream_of(DELTAS)
    told = stream_of(DELTAS, head=ChatHead(HEAD.id, HEAD.created, "gpt", include_usage=True))

    assert b'"usage"' not in plain
    *before, last = chunks(told)
    assert all(chunk["usage"] is None for chunk in before)
    assert last["choices"] == []
    assert last["usage"] == usage(40, ANSWER + CLOSING.appendix)
    assert frames(told)[-1] == "[DONE]"


def test_it_estimates_four_characters_a_token() -> None:
    assert usage(43, "x" * 9) == {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


def test_it_puts_the_footer_before_the_notices() -> None:
    closing = Closing(0, ("[Remaining Pro Search: 5]",), footer_of=(PAGE,))

    assert joined(stream_of([Text("x")], Done("x"), closing), "content") == (
        "x\n\n---\nSources:\n[1] https://a.example/harbour\n\n[Remaining Pro Search: 5]"
    )


def test_it_adds_nothing_where_nothing_is_due() -> None:
    assert deltas_in(stream_of([Text("x")], Done("x"), Closing(0))) == [
        {"role": "assistant"},
        {"content": "x"},
        {},
    ]


def test_it_says_in_our_own_member_what_is_ours() -> None:
    closing = Closing(0, sonde={"backend": "web", "ignored": ["store"]})

    *before, last = chunks(stream_of([Text("x")], Done("x"), closing))
    body = json.loads(ChatFold().body(HEAD, Done("x"), closing))

    assert last["sonde"] == body["sonde"] == {"backend": "web", "ignored": ["store"]}
    assert last["choices"][0]["finish_reason"] == "stop"
    assert not any("sonde" in chunk for chunk in before)


def test_it_says_who_answered_and_on_what() -> None:
    other = Source("https://b.example/", "Other")
    done = Done(
        "x", (other, Source(""), PAGE), model=ModelUsed("gpt5_nano", True), citations=(Citation(0, 1, PAGE),)
    )

    assert our_member(done, "GPT-5 Nano", sandbox=True, ignored=("store",)) == {
        "backend": "web",
        "model": "GPT-5 Nano",
        "substituted": True,
        "sandbox": True,
        "ignored": ["store"],
        "usage": "estimated",
        "sources": [
            {"id": 1, "url": "https://b.example/", "title": "Other", "provenance": "retrieved"},
            {"id": 3, "url": PAGE.url, "title": PAGE.title, "provenance": "cited"},
        ],
        "checks": {"out_of_range": [], "unattributed": []},
    }
    assert our_member(Done("x"), "", sandbox=False)["model"] is None


@pytest.mark.parametrize("kind", FaultKind)
def test_it_ends_a_failed_stream_with_the_error_alone(kind: FaultKind) -> None:
    problem = problem_of(Fault(kind, "why"))

    (frame,) = frames(error_frame(problem))

    assert json.loads(frame) == problem.body()
    assert set(json.loads(frame)["error"]) == {"message", "type", "param", "code"}


def test_it_keeps_strange_characters_in_their_strings() -> None:
    text = '\u2028\x00\x1f"\\</script>\r\n\n data: [DONE]\n\n🌊'
    stream = stream_of([Text(text)], Done(text), Closing(0), ChatHead('a"\\', 1, 'm"\n'))

    assert joined(stream, "content") == text
    assert chunks(stream)[0]["id"] == 'a"\\'
    assert chunks(stream)[0]["model"] == 'm"\n'


def plain(deltas: list[Delta], done: Done = DONE, closing: Closing = CLOSING) -> dict[str, Any]:
    fold = ChatFold()
    for delta in deltas:
        fold.add([delta])
    body: dict[str, Any] = json.loads(fold.body(HEAD, done, closing))
    return body


def test_it_folds_the_same_answer_into_a_body() -> None:
    body = plain(DELTAS)
    (choice,) = body.pop("choices")

    assert body == {
        "id": HEAD.id,
        "object": "chat.completion",
        "created": HEAD.created,
        "model": "gpt",
        "system_fingerprint": None,
        "usage": usage(40, ANSWER + CLOSING.appendix),
    }
    message = choice.pop("message")
    assert choice == {"index": 0, "finish_reason": "stop", "logprobs": None}
    assert message["content"] == ANSWER + CLOSING.appendix
    assert (
        message["reasoning_content"] == "Searching: tides\nFound: [Harbour guide](https://a.example/harbour)"
    )
    assert (message["role"], message["refusal"]) == ("assistant", None)


def test_it_gives_the_body_that_the_sdk_knows() -> None:
    ChatCompletion.model_validate(plain(DELTAS), strict=True)


def test_it_has_no_reasoning_where_none_came() -> None:
    assert "reasoning_content" not in plain([Text("x")], Done("x"))["choices"][0]["message"]


def test_it_trims_a_plain_answer_and_moves_its_citations() -> None:
    done = Done("", citations=(Citation(2, 6, PAGE),))

    message = plain([Text("\n\nTide \n")], done, Closing(0))["choices"][0]["message"]

    assert message["content"] == "Tide"
    assert [one["url_citation"]["start_index"] for one in message["annotations"]] == [0]
    assert [one["url_citation"]["end_index"] for one in message["annotations"]] == [4]


@of_each({sample.name: [sample] for sample in SAMPLES})
def test_it_says_the_same_streamed_and_plain(sample: Sample) -> None:
    deltas = read([sample.stream], sample.requested)
    done = last_of(deltas)
    if isinstance(done, Fault):
        return
    streamed = stream_of(deltas, done)
    message = plain(deltas, done)["choices"][0]["message"]

    sent = joined(streamed, "content").removesuffix(CLOSING.appendix)
    assert message["content"] == sent.strip() + CLOSING.appendix
    for one in message["annotations"]:
        cited = one["url_citation"]
        assert message["content"][cited["start_index"] : cited["end_index"]].strip()


def test_it_never_shows_a_secret_of_the_thread() -> None:
    deltas = read([SAMPLES[0].stream], SAMPLES[0].requested)

    assert b"rw-1" not in ChatStream(HEAD).encode(deltas)


def test_it_names_an_error_of_ours_as_it_is() -> None:
    assert json.loads(frames(error_frame(Problem("No.")))[0])["error"]["type"] == "server_error"
