"""The event streams of synchronous Sonar, full and concise (perplexity-api §4.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

from sandbox.runs import Moment
from sandbox.sonar_request import SonarAsk
from sandbox.sonar_shapes import completion, found, report_text, search_result
from sandbox.wire import dump
from sandbox.world import World

_PIECES = 40
_SKELETON = {
    "prompt_tokens": 40,
    "completion_tokens": 0,
    "total_tokens": 40,
    "cost": {"input_tokens_cost": Decimal(0), "output_tokens_cost": Decimal(0), "total_cost": Decimal(0)},
}


def _pieces(text: str) -> list[str]:
    size = max(24, len(text) // _PIECES)
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def _choice(
    delta: dict[str, object], message: dict[str, object], finish: str | None = None
) -> dict[str, object]:
    return {"index": 0, "finish_reason": finish, "delta": delta, "message": message}


def _full(whole: dict[str, Any], text: str) -> Iterator[dict[str, object]]:
    """Every chunk holds the increment and the text so far; the last one the cost."""
    pieces = _pieces(text)
    written = ""
    for number, piece in enumerate(pieces):
        written += piece
        last = number == len(pieces) - 1
        finish = whole["choices"][0]["finish_reason"] if last else None
        choice = _choice(
            {"role": "assistant", "content": piece}, {"role": "assistant", "content": written}, finish
        )
        used = whole["usage"] if last else _SKELETON
        yield {**whole, "object": "chat.completion.chunk", "choices": [choice], "usage": used}


def _concise(moment: Moment, whole: dict[str, Any], text: str) -> Iterator[dict[str, object]]:
    """Reasoning steps, their end with the sources, increments, the whole; deep research shows no steps."""
    base = {name: whole[name] for name in ("id", "model", "created")}
    results = [search_result(source) for source in found(moment).sources]
    empty: dict[str, object] = {"role": "assistant", "content": ""}
    if whole["model"] != "sonar-deep-research":
        for step in found(moment).steps:
            if step.kind == "search":
                search = {
                    "search_keywords": list(step.queries),
                    "search_results": results[step.first : step.last],
                }
                thought = {"thought": "Searching.", "type": "web_search", "web_search": search}
                delta = {**empty, "reasoning_steps": [thought]}
                yield {**base, "object": "chat.reasoning", "choices": [_choice(delta, empty)]}
    yield {
        **base,
        "object": "chat.reasoning.done",
        "choices": [_choice(empty, empty)],
        "search_results": whole["search_results"],
        "images": [],
        "usage": _SKELETON,
    }
    for piece in _pieces(text):
        delta = {"role": "assistant", "content": piece}
        yield {**base, "object": "chat.completion.chunk", "choices": [_choice(delta, empty)]}
    yield {**whole, "object": "chat.completion.done"}


async def play(world: World, moment: Moment, ask: SonarAsk) -> AsyncIterator[bytes]:
    """The stream of a synchronous answer, spread over the length of its run."""
    whole = completion(moment, ask.model)
    text = report_text(moment)
    chunks = list(_concise(moment, whole, text) if ask.concise else _full(whole, text))
    for chunk in chunks:
        await world.sleep(moment.job.seconds / len(chunks))
        yield b"data: " + dump(chunk) + b"\r\n\r\n"
    if "no-done" not in moment.script:
        yield b"data: [DONE]\r\n\r\n"
