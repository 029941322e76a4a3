"""The rows of stored responses: written with their turn, and ended with their turn.

Who writes events has the turn's row locked, so that two processes that both believe to be at work
never write the same number twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from uuid import UUID

import msgspec
from django.db.models import QuerySet
from django.utils import timezone

from portal.services import sealing
from portal.services.principal import Principal
from portal.wire.errors import Problem
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse, ResponseEvents
from proxy.protocol.chat import ChatRequest
from proxy.protocol.conversation import Conversation
from proxy.protocol.delta import Reasoning, Thread
from proxy.protocol.functions import read_offer
from proxy.protocol.functions_prompt import Bridge
from proxy.protocol.response_functions import as_said, functions_of, turns_of
from proxy.protocol.response_object import Head, Json, output_text
from proxy.protocol.responses import ResponsesRequest
from proxy.protocol.responses_stream import Event, ResponseStream
from proxy.services import conversations
from proxy.services.attachments import attached_of
from proxy.services.catalog import find_model
from proxy.services.chat import Question

DOOR = "resp"
"""The door of turns that are answered while their caller waits."""
BACKGROUND = "resp-bg"
"""And of those that a worker answers."""
RECORD_END = "\n\n"


def head_of(row: ChatResponse) -> Head:
    """What never changes of it; the object itself says it."""
    body = row.body
    return Head(
        body["id"],
        body["created_at"],
        body["model"],
        body,
        body["previous_response_id"] or "",
        (body["conversation"] or {}).get("id", ""),
    )


def stream_of(row: ChatResponse) -> ResponseStream:
    """The stream as it stood after the events that are written."""
    include = bool((row.prepared or {}).get("include_sources"))
    return ResponseStream.restored(head_of(row), _written(row), include_sources=include)


def lines_told(row: ChatResponse) -> frozenset[str]:
    """The steps that its events tell of, as `Reasoning.line` has them."""
    lines: set[str] = set()
    for event in _written(row):
        if event.type == "response.reasoning_summary_text.delta":
            lines.add(json.loads(event.data)["delta"].removeprefix("\n"))
        elif event.type == "response.output_item.added":
            action = json.loads(event.data)["item"].get("action", {})
            if action.get("type") == "search":
                lines.add(Reasoning("searching", action["query"]).line)
            elif action.get("type") == "open_page":
                lines.add(Reasoning("reading", action["url"]).line)
    return frozenset(lines)


def _written(row: ChatResponse) -> Iterator[Event]:
    batches = ResponseEvents.objects.filter(response_id=row.pk).order_by("first")
    return (event for batch in batches for event in events_of(batch))


def events_of(batch: ResponseEvents) -> Iterator[Event]:
    """The events of one write, as they were."""
    for number, record in enumerate(records_of(batch), batch.first):
        kind, _, data = record.partition("\ndata: ")
        yield Event(number, kind.removeprefix("event: "), data.encode())


def records_of(batch: ResponseEvents) -> list[str]:
    """One for each event, without the blank line behind it; JSON holds no line ends."""
    return batch.data.removesuffix(RECORD_END).split(RECORD_END)


def prepared_of(question: Question, request: ResponsesRequest) -> Json:
    """A question that was let in, as JSON: a worker asks it as it was admitted."""
    asked = question.request
    footer = question.who.chat.sources_footer if asked.sources_footer is None else asked.sources_footer
    return {
        "include_sources": request.include_search_sources,
        "model": asked.model,
        "thinking": asked.thinking,
        "sources": list(asked.sources),
        "language": asked.language,
        "sources_footer": footer,
        "ignored": list(asked.ignored),
        "bridge": _prepared_bridge(asked.bridge, request),
        "conversation": msgspec.to_builtins(question.conversation),
    }


def _prepared_bridge(bridge: Bridge | None, request: ResponsesRequest) -> Json | None:
    if bridge is None:
        return None
    return {
        "query": bridge.query,
        "question": bridge.question,
        "silenced": not request.functions,
        "choice": request.tool_choice,
        "parallel": request.parallel_tool_calls,
    }


def _bridge_of(row: ChatResponse) -> Bridge | None:
    """The definitions are those that the object repeats."""
    asked = row.prepared.get("bridge")
    if asked is None:
        return None
    functions = functions_of(row.body["tools"])
    offer = read_offer(functions, asked["choice"], "flat", parallel=asked["parallel"])
    return Bridge(offer.silenced() if asked["silenced"] else offer, asked["query"], asked["question"])


def question_of(row: ChatResponse, turn: ChatTurn) -> Question:
    """The question again. Raises BadRequest and ModelNotAvailable for a model, or an attachment, that
    went meanwhile."""
    asked = row.prepared
    conversation = msgspec.convert(asked["conversation"], Conversation)
    request = ChatRequest(
        asked["model"],
        (),
        stream=True,
        thinking=asked["thinking"],
        sources=tuple(asked["sources"]),
        language=asked["language"],
        sources_footer=asked["sources_footer"],
        ignored=tuple(asked["ignored"]),
        bridge=_bridge_of(row),
    )
    return Question(
        turn.pk,
        Principal(turn.user_id, frozenset(), key_id=turn.key_id),
        request,
        conversation,
        request.bridge.query if request.bridge else conversation.whole("input"),
        find_model(request.model).model,
        turn.price,
        BACKGROUND,
        turn.created_at,
        enclosures=attached_of(row.pk),
    )


def write_events(response_id: UUID, events: Sequence[Event]) -> None:
    """Write those of them that are not written yet: whoever does not know whether a commit happened brings
    them again. The caller has the turn's row locked."""
    written = ChatResponse.objects.filter(pk=response_id).values_list("events", flat=True).first() or 0
    events = [event for event in events if event.sequence_number >= written]
    if not events:
        return
    if events[0].sequence_number != written:
        raise RuntimeError(f"event {events[0].sequence_number} of {response_id} follows {written - 1}")
    last = events[-1].sequence_number
    data = b"".join(event.encode() for event in events).decode()
    ResponseEvents.objects.create(
        response_id=response_id, first=events[0].sequence_number, last=last, data=data
    )
    ChatResponse.objects.filter(pk=response_id).update(events=last + 1)


def write_thread(response_id: UUID, thread: Thread) -> None:
    """Where the answer lives upstream, for whoever goes on with it after a death."""
    rows = ChatResponse.objects.filter(pk=response_id, completed_at=None)
    rows.update(thread=sealing.seal(json.dumps(asdict(thread)), ChatResponse(pk=response_id), "thread"))


def thread_of(row: ChatResponse) -> Thread | None:
    """None where it is not known, or sealed by a key that is gone."""
    if not row.thread:
        return None
    try:
        thread = Thread(**json.loads(sealing.unseal(row, "thread")))
    except sealing.SealError:
        return None
    return thread if thread.entry else None


def that_can_go_on() -> QuerySet[ChatResponse]:
    """Streams of callers who were waiting which a worker can go on with, should their process die."""
    return ChatResponse.objects.filter(completed_at=None, prepared__isnull=False).exclude(thread="")


def write_end(response_id: UUID, body: Json, events: Sequence[Event], answer: str = "") -> bool:
    """Write the last events and the whole object; False for a response that is over, or was deleted.

    `answer` is the text that a next response continues, without notices.
    """
    rows = ChatResponse.objects.filter(pk=response_id, completed_at=None)
    row = rows.select_related("conversation").first()
    if row is None:
        return False
    said = row.said
    if body["status"] == "completed":
        said = [*said, *_answered(body["output"], answer)]
    if not rows.update(
        status=body["status"], body=body, said=said, prepared=None, thread="", completed_at=timezone.now()
    ):
        return False
    write_events(response_id, events)
    if row.conversation is not None and body["status"] == "completed":
        conversations.extend(row.conversation, [*row.input_items, *body["output"]], row.pk)
    return True


def _answered(output: Sequence[Json], answer: str) -> list[list[str]]:
    """What was answered, as `said` keeps it: its calls, or its text."""
    calls = [item for item in output if item["type"] == "function_call"]
    return as_said(turns_of(calls)) if calls else [["assistant", answer or output_text(output)]]


def end_with_turn(response_id: UUID, problem: Problem | None) -> None:
    """The response of a turn that ends without anybody who relays it: failed, or cancelled.

    What was told of its text stays.
    """
    row = ChatResponse.objects.filter(pk=response_id, completed_at=None).first()
    if row is None:
        return
    stream = stream_of(row)
    events = [] if row.events else stream.open()
    events += stream.fail(problem) if problem else stream.cancel()
    write_end(response_id, stream.response, events if is_streamed(row) else ())


def can_be_resumed(row: ChatResponse) -> bool:
    """Whether its events are those that its caller has seen: not of a stream that a worker took over from a
    dead process, nor while nobody knows whether one will."""
    return row.background or (row.completed_at is not None and not row.attempts)


def is_streamed(row: ChatResponse) -> bool:
    """Whether its events are kept, now or at its end: not of an answer whose caller waits for the whole."""
    return row.background or bool(row.events) or row.prepared is not None
