"""The four shapes of an answer (perplexity-web §7): which one a request gets, and its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.scenarios import Script
from sandbox.web import documents
from sandbox.web.ask_request import Ask
from sandbox.web.content import Content
from sandbox.web.documents import Document
from sandbox.web.patches import difference
from sandbox.web.stages import Stage

MAIN, MIRROR = "ask_text", "ask_text_0_markdown"
_NOTHING = Stage()
_MEDIA: tuple[tuple[str, str, Document], ...] = (
    (
        "media_items",
        "media_block",
        {"media_items": [{"medium": "image", "image": "https://example.org/i.png"}]},
    ),
    ("knowledge_cards", "knowledge_card_block", {"knowledge_cards": [{"title": "A card", "cells": []}]}),
    ("inline_entity_cards", "inline_entity_card_block", {"cards": []}),
    ("place_widgets", "maps_mode_block", {"places": []}),
    ("finance_widgets", "finance_widget_block", {"symbols": []}),
    ("sports_widgets", "sports_widget_block", {"events": []}),
    ("shopping_widgets", "shopping_block", {"products": []}),
    ("search_result_widgets", "search_result_widget_block", {"widgets": []}),
    ("answer_modes", "answer_tabs_mode_block", {"answer_modes": [{"answer_mode_type": "SOURCES"}]}),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What frames are made of. `workflow` holds the steps, and with `workflow_answers` the text too."""

    blocks: bool
    patches: bool
    workflow: bool
    workflow_answers: bool
    text: bool
    assets: bool
    report_in_text: bool
    reasoning_plan: bool
    use_cases: frozenset[str]
    mirror: bool
    mirror_only: bool
    switch: bool
    resend: bool


def shape_of(ask: Ask, content: Content, model: str, script: Script) -> Shape:
    """The shape that follows from the request's block list and the model, unless a marker orders one."""
    ordered = script.markers.get("shape")
    cases = ask.use_cases
    blocks = ask.wants_blocks if ordered is None else ordered != "text"
    workflow = ("workflow_steps" in cases) if ordered is None else ordered == "workflow"
    fast = workflow and content.flow in ("quick", "search")
    where = script.markers.get("report-in")
    return Shape(
        blocks=blocks,
        patches=("diff_blocks" in cases) if ordered is None else ordered == "patches",
        workflow=workflow,
        workflow_answers=fast,
        text=not blocks or (ask.wants_text and not fast),
        assets=("unified_assets" in cases) if where is None else where in ("assets", "both"),
        report_in_text=where in (None, "text", "both"),
        reasoning_plan=model.startswith("kimi"),
        use_cases=cases,
        mirror="mirror" in script or (model == "turbo" and ordered is None),
        mirror_only="mirror-only" in script,
        switch="track-switch" in script,
        resend="resend-chunks" in script,
    )


@dataclass(frozen=True, slots=True)
class Part:
    """One document in a frame: its place, and what it was before (None: not sent yet)."""

    usage: str
    field: str
    now: Document
    before: Document | None = None


def _whole(part: Part) -> Document:
    return {"intended_usage": part.usage, part.field: part.now}


def _patched(part: Part) -> Document:
    patches = list(difference(part.before, part.now))
    return {"intended_usage": part.usage, "diff_block": {"field": part.field, "patches": patches}}


class Blocks:
    """The blocks of one entry's frames."""

    def __init__(self, content: Content, shape: Shape) -> None:
        self._content = content
        self.shape = shape

    def between(self, before: Stage, now: Stage) -> list[Document]:
        """What a frame says that leads from one stage to the next."""
        if not self.shape.blocks or before == now:
            return []
        write = _patched if self.shape.patches else _whole
        parts = [*self._work(before, now), *self._text(before, now), *self._assets(before, now)]
        return [write(part) for part in parts if part.now != part.before] + self._media(before, now)

    def snapshot(self, now: Stage, *, last: bool) -> list[Document]:
        """Everything at a stage, materialised: the last frame, and the first one after a reconnect."""
        if not self.shape.blocks:
            return []
        found = [_whole(part) for part in self._everything(now, last)]
        return found + (self._media(_NOTHING, now) if last else [])

    def _plan_place(self) -> tuple[str, str]:
        return ("reasoning_plan_block",) * 2 if self.shape.reasoning_plan else ("plan", "plan_block")

    def _work(self, before: Stage, now: Stage) -> Iterator[Part]:
        """Goals, steps and sources, each when it changed."""
        content = self._content
        goals = (before.goals, before.goals_done, before.percent, before.eta)
        if self.shape.workflow:
            if (before.steps, before.pieces) != (now.steps, now.pieces):
                yield self._workflow(before, now)
        elif goals != (now.goals, now.goals_done, now.percent, now.eta):
            old = documents.plan(content, before) if before.goals or before.percent is not None else None
            yield Part(*self._plan_place(), documents.plan(content, now), old)
        if not self.shape.workflow and before.steps != now.steps and content.flow != "quick":
            old = documents.search_steps(content, before) if before.steps else None
            yield Part("pro_search_steps", "plan_block", documents.search_steps(content, now), old)
        if before.found != now.found:
            old = None if before.found == "none" else documents.web_results(content, before)
            yield Part("web_results", "web_result_block", documents.web_results(content, now), old)

    def _workflow(self, before: Stage, now: Stage) -> Part:
        answers = self.shape.workflow_answers
        old = (
            documents.workflow(self._content, before, answers=answers)
            if before.steps or before.pieces
            else None
        )
        return Part(
            "workflow_root", "workflow_block", documents.workflow(self._content, now, answers=answers), old
        )

    def _tracks(self, pieces: int) -> list[str]:
        """The usages on which the text goes when so many pieces are out."""
        if self.shape.switch:
            return [MIRROR] if pieces <= len(self._content.pieces) // 2 else [MAIN]
        if self.shape.mirror_only:
            return [MIRROR]
        return [MAIN, MIRROR] if self.shape.mirror else [MAIN]

    def _text(self, before: Stage, now: Stage) -> Iterator[Part]:
        if before.pieces == now.pieces or self.shape.workflow_answers:
            return
        tracks = self._tracks(before.pieces) if before.pieces else []
        for usage in self._tracks(now.pieces):
            begun = before.pieces if usage in tracks else 0
            if self.shape.patches:
                old = documents.markdown(self._content, before) if begun else None
                yield Part(usage, "markdown_block", documents.markdown(self._content, now), old)
            else:
                begin = max(0, begun - 1) if self.shape.resend else begun
                begin = 0 if now.pieces < before.pieces else begin
                yield Part(usage, "markdown_block", documents.markdown(self._content, now, begin))

    def _assets(self, before: Stage, now: Stage) -> Iterator[Part]:
        if self.shape.assets and self._content.report is not None and now.report and not before.report:
            yield Part("unified_assets", "unified_assets_block", documents.assets(self._content))

    def _media(self, before: Stage, now: Stage) -> list[Document]:
        if before.media or not now.media:
            return []
        return [
            {"intended_usage": usage, field: value}
            for usage, field, value in _MEDIA
            if usage in self.shape.use_cases
        ]

    def _everything(self, now: Stage, last: bool) -> Iterator[Part]:
        content = self._content
        if self.shape.workflow:
            document = documents.workflow(content, now, answers=self.shape.workflow_answers, last=last)
            yield Part("workflow_root", "workflow_block", document)
        elif content.goals:
            yield Part(*self._plan_place(), documents.plan(content, now, last=last))
        if not self.shape.workflow and now.steps and content.flow != "quick":
            yield Part("pro_search_steps", "plan_block", documents.search_steps(content, now, last=last))
        if not self.shape.workflow_answers and (now.pieces or last):
            for usage in self._tracks(now.pieces):
                yield Part(usage, "markdown_block", documents.markdown(content, now, last=last))
        yield from self._assets(_NOTHING, now)
        if now.found != "none":
            yield Part("web_results", "web_result_block", documents.web_results(content, now, last=last))
            if last:
                sources: dict[str, Any] = {"progress": "DONE", "web_results": list(content.sources)}
                yield Part("sources_answer_mode", "sources_mode_block", sources)
