"""The documents inside the frames (perplexity-web §7), whole, as they stand at a stage.

A frame shows a document whole or as patches; in both cases it is the document that is told here.
"""

from __future__ import annotations

from typing import Any

from sandbox.web.content import Content, Step
from sandbox.web.stages import Stage

Document = dict[str, Any]
_TITLES = {"SEARCH_WEB": "Searching", "READ_RESULTS": "Reading", "THOUGHT": "Thinking"}


def _progress(last: bool) -> str:
    return "DONE" if last else "IN_PROGRESS"


def _goals(content: Content, stage: Stage, last: bool) -> list[Document]:
    done = stage.goals if last else stage.goals_done
    return [
        {
            "id": str(number),
            "description": goal,
            "final": number < done,
            "todo_task_status": "COMPLETE" if number < done else "INCOMPLETE",
        }
        for number, goal in enumerate(content.goals[: stage.goals])
    ]


def plan(content: Content, stage: Stage, *, last: bool = False) -> Document:
    """`plan_block` of the usage `plan`."""
    found = {"progress": _progress(last), "final": last, "goals": _goals(content, stage, last)}
    if stage.percent is not None:
        found["pct_complete"] = 100 if last else stage.percent
        found["eta_seconds_remaining"] = 0 if last else stage.eta
    return found


def _shown_step(step: Step) -> Document:
    return {"uuid": step.id, "step_type": step.kind, f"{step.kind.lower()}_content": step.block}


def search_steps(content: Content, stage: Stage, *, last: bool = False) -> Document:
    """`plan_block` of the usage `pro_search_steps`."""
    steps = [_shown_step(step) for step in content.steps[: stage.steps] if step.block is not None]
    return {"progress": _progress(last), "final": last, "goals": [], "steps": steps}


def web_results(content: Content, stage: Stage, *, last: bool = False) -> Document:
    """`web_result_block`; only the last list is in the order that the citation marks count by."""
    found = content.sources if last or stage.found == "final" else content.early
    return {"progress": _progress(last), "web_results": list(found)}


def markdown(content: Content, stage: Stage, begin: int = 0, *, last: bool = False) -> Document:
    """`markdown_block` with the pieces from number `begin` on; the last repeats all and adds the answer."""
    if last:
        whole = list(content.pieces) if content.answer else []
        return {"progress": "DONE", "chunks": whole, "chunk_starting_offset": 0, "answer": content.answer}
    chunks = list(content.pieces[begin : stage.pieces])
    return {"progress": "IN_PROGRESS", "chunks": chunks, "chunk_starting_offset": begin}


def assets(content: Content) -> Document:
    """`unified_assets_block`, which carries the report of deep research (§8)."""
    return {
        "assets": [{"asset_type": "RESEARCH_REPORT", "research_report": {"source_content": content.report}}]
    }


def _item(step: Step, kind: str, payload: Document) -> Document:
    return {"id": f"{step.id}-{kind.lower()}", "type": f"WORKFLOW_ITEM_{kind}", "payload": payload}


def _workflow_step(step: Step, sources: tuple[Document, ...], status: str) -> Document:
    queries = [query["query"] for query in (step.block or {}).get("queries", ())]
    items = [_item(step, "QUERIES", {"queries_payload": {"queries": queries}})] if queries else []
    if step.kind == "READ_RESULTS":
        urls = (step.block or {}).get("urls", ())
        seen = [source for source in sources if source["url"] in urls]
        items = [_item(step, "SOURCES", {"sources_payload": {"sources": seen}})]
    title = _TITLES.get(step.kind, step.kind.capitalize())
    return {"id": step.id, "status": status, "title": title, "icon": "search", "tool_name": "search_web",
            "items": items}  # fmt: skip


def _answer_step(content: Content, stage: Stage, last: bool) -> Document:
    chunks = list(content.pieces[: stage.pieces])
    text = content.answer if last else "".join(chunks)
    payload = {"text": text, "chunks": chunks if text else [], "variant": "answer", "is_streaming": not last}
    item = {"id": "answer", "type": "WORKFLOW_ITEM_TEXT", "payload": {"text_payload": payload}}
    return {"id": "answer-step", "status": "COMPLETED" if last else "IN_PROGRESS", "title": "Answer",
            "icon": "text", "tool_name": None, "items": [item]}  # fmt: skip


def workflow(content: Content, stage: Stage, *, answers: bool, last: bool = False) -> Document:
    """`workflow_block`; with `answers` it holds the text too, as fast models send it (§7)."""
    shown = [step for step in content.steps[: stage.steps] if step.block is not None]
    writing = last or stage.pieces > 0
    steps = [
        _workflow_step(
            step, content.sources, "COMPLETED" if writing or number < len(shown) else "IN_PROGRESS"
        )
        for number, step in enumerate(shown, 1)
    ]
    if answers and stage.pieces:
        steps.append(_answer_step(content, stage, last))
    return {
        "version": 1,
        "mode": "default",
        "status": "COMPLETED" if last else "IN_PROGRESS",
        "headline": content.title,
        "steps": steps,
        "snapshots": [],
    }
