"""The `text` member: a JSON string of steps with another JSON string inside (perplexity-web §8)."""

from __future__ import annotations

import json
from typing import Any

from sandbox.web.content import Content
from sandbox.web.stages import Stage

_QUESTIONS = {
    "questions": [
        {"question_text": "Which years matter to you?", "options": ["The last five", "All of them"]},
        {"question_text": "Who is going to read this?", "options": []},
    ],
    "auto_skip_seconds": 60,
    "title": "Before it begins",
    "answers": [],
}


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _final(content: Content, text: str, chunks: list[str], form: str) -> Any:
    whole = {"answer": text, "web_results": list(content.sources), "chunks": chunks, "structured_answer": []}
    return text if form == "string" else _dump(whole)


def _step(kind: str, content: Any, name: str) -> dict[str, Any]:
    return {"step_type": kind, "content": content, "uuid": name}


def step_list(content: Content, stage: Stage, form: str, *, last: bool, report: bool) -> str:
    """The value of `text` at a stage, in one of its forms; with the report when it is there and wanted."""
    text = content.answer if last else "".join(content.pieces[: stage.pieces])
    if form == "plain":
        return text
    if form == "object":
        return _dump({"answer": text, "web_results": list(content.sources)})
    found = [
        _step(step.kind, step.text, step.id) for step in content.steps[: stage.steps] if step.text is not None
    ]
    if stage.clarifying:
        found.append(_step("RESEARCH_CLARIFYING_QUESTIONS", _QUESTIONS, "clarifying"))
    if report and stage.report and content.report is not None:
        asset = {"asset_type": "RESEARCH_REPORT", "research_report": {"source_content": content.report}}
        found.append({**_step("RESEARCH_ANSWER", {}, "report"), "assets": [asset]})
    if stage.pieces or last:
        chunks = list(content.pieces[: stage.pieces])
        found.append(_step("FINAL", {"answer": _final(content, text, chunks, form)}, "final"))
    return _dump(found)
