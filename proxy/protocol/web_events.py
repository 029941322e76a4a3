"""The ask stream of the web upstream: records in, deltas out (perplexity-web §§5-9).

Four shapes carry the answer, often several at once: chunks placed by offset, JSON Patch, a workflow,
and a cumulative list of steps. The first that brings text is followed to the end; the others can
still say how the answer ends. Success is a completed stream and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from portal.wire.sse import SseRecord
from proxy.protocol import web_steps, workflow
from proxy.protocol.answer_tracks import MARKDOWN, AnswerTracks
from proxy.protocol.delta import (
    Delta,
    Done,
    Fault,
    FaultKind,
    Progress,
    Reasoning,
    Text,
    Thread,
    ThreadKnown,
)
from proxy.protocol.documents import Block, Documents
from proxy.protocol.model_used import ModelWatch
from proxy.protocol.refusals import error_event, refusal
from proxy.protocol.tolerant import items_of, object_of, text_of
from proxy.protocol.trail import Trail
from proxy.protocol.web_frame import Frame, PieceBlock, PieceFrame, read_frame
from proxy.protocol.web_sources import Place, SourceList

_PLANS = ("plan_block", "reasoning_plan_block")


@dataclass(slots=True)
class WebAnswer:
    """Reads one answer of a model asked for as the preference `requested`.

    `complete`: a frame has said that the answer is; what may still come is the stream's end.
    """

    requested: str
    trail: Trail | None = None
    """Filled for whoever wants all of it."""
    over: bool = False
    complete: bool = False
    thread: Thread = field(default_factory=Thread)
    _tracks: AnswerTracks = field(default_factory=AnswerTracks)
    _documents: Documents = field(default_factory=Documents)
    _sources: SourceList = field(default_factory=SourceList)
    _model: ModelWatch = field(init=False)
    _told: set[str] = field(default_factory=set)
    _progress: Progress | None = None
    _report: str = ""
    _steps_text: str = ""
    _stopped: bool = False
    _ids: tuple[object, ...] = ()
    """The thread's members as the last frame had them."""

    def __post_init__(self) -> None:
        self._model = ModelWatch(self.requested)

    def read(self, record: SseRecord) -> list[Delta]:
        """What one record tells. After a `Done` or `Fault` nothing more is told."""
        if self.over:
            return []
        if record.event == "message":
            frame = read_frame(record.data)
            return self._end(Fault(FaultKind.BROKEN)) if frame is None else self._read_frame(frame)
        if record.event == "end_of_stream":
            return self._end(self.verdict())
        if record.event == "error":
            return self._end(error_event(record.data))
        return []

    def close(self) -> list[Delta]:
        """The body has ended: without `end_of_stream` that is a failure."""
        return [] if self.over else self._end(Fault(FaultKind.CUT))

    def so_far(self) -> Done:
        """The answer as if it ended here; its text may be empty."""
        answer = self._tracks.answer
        if self._report and self._report not in answer:
            answer = f"{answer.rstrip()}\n\n{self._report}" if answer.strip() else self._report
        return Done(answer, self._sources.sources, self.thread, self._model.used, self._report)

    @property
    def progress(self) -> Progress | None:
        return self._progress

    def _end(self, last: Done | Fault) -> list[Delta]:
        self.over = True
        return [last]

    def verdict(self) -> Done | Fault:
        """What the answer is worth if nothing more comes."""
        if self._stopped:
            return Fault(FaultKind.STOPPED)
        if self._tracks.is_broken(self._documents.lost):
            return Fault(FaultKind.BROKEN)
        done = self.so_far()
        if not done.answer.strip():
            return Fault(FaultKind.REWRITTEN if self._tracks.taken_back else FaultKind.EMPTY)
        return done

    def _read_frame(self, frame: Frame) -> list[Delta]:
        fault = refusal(frame)
        if fault:
            return self._end(fault)
        deltas: list[Delta] = []
        self._read_thread(frame, deltas)
        emitted = self._tracks.text.size
        if isinstance(frame, PieceFrame):
            answer = self._read_pieces(frame.blocks)
        else:
            answer = self._read_blocks(frame.blocks, deltas)
        if frame.plan or frame.web_results:
            self._read_legacy(frame, deltas)
        if isinstance(frame.text, str) and frame.text != self._steps_text:
            self._steps_text = frame.text
            self._read_steps(frame.text, deltas, answer)
        self._read_model(frame, self._tracks.text.size - emitted, emitted, deltas)
        for text in answer:
            deltas.append(Text(text))
        if frame.status == "COMPLETED" and frame.final_sse_message is True:
            self.complete = True
            self._stopped = frame.text_completed is False
        return deltas

    def _read_thread(self, frame: Frame, deltas: list[Delta]) -> None:
        ids = (frame.backend_uuid, frame.context_uuid, frame.read_write_token, frame.thread_url_slug)
        if ids == self._ids:  # as on nearly every frame
            return
        self._ids = ids
        now = self.thread
        entry, context, token, slug = map(text_of, ids)
        thread = Thread(entry or now.entry, context or now.context, token or now.token, slug or now.slug)
        if thread != now:
            self.thread = thread
            deltas.append(ThreadKnown(thread))

    def _read_model(self, frame: Frame, piece: int, emitted: int, deltas: list[Delta]) -> None:
        used = self._model.see(
            text_of(frame.display_model), text_of(frame.user_selected_model), piece=piece, emitted=emitted
        )
        if used:
            deltas.append(used)

    def _tell(self, lines: Iterable[Reasoning], deltas: list[Delta]) -> None:
        for reasoning in lines:
            line = reasoning.line
            if line not in self._told:
                self._told.add(line)
                deltas.append(reasoning)

    def _read_pieces(self, blocks: list[PieceBlock]) -> list[str]:
        if self._documents.lost:
            self._documents.lost -= {(block.usage, MARKDOWN) for block in blocks}
        text = self._tracks.read_pieces(blocks)
        return [text] if text else []

    def _read_blocks(self, frame_blocks: object, deltas: list[Delta]) -> list[str]:
        blocks = self._documents.read(frame_blocks)
        answer = [text] if (text := self._tracks.read_blocks(blocks)) else []
        for block in blocks:
            self._read_block(block, deltas, answer)
        return answer

    def _read_block(self, block: Block, deltas: list[Delta], answer: list[str]) -> None:
        """Every kind of block but the answer's own tracks."""
        if block.field in _PLANS:
            self._read_plan(block, deltas)
        elif block.field == "web_result_block" and block.usage == "web_results":
            self._read_results(block, deltas)
        elif block.field == "sources_mode_block":
            rows = items_of(block.value.get("web_results")) or items_of(block.value.get("rows"))
            deltas += self._sources.replace(Place.SOURCES_TAB, rows)
            if self.trail:
                self.trail.note_found(rows)
        elif block.field == "unified_assets_block":
            self._report = web_steps.report_body(block.value.get("assets")) or self._report
        elif block.field == "workflow_block":
            self._read_workflow(block, deltas, answer)

    def _read_plan(self, block: Block, deltas: list[Delta]) -> None:
        goals = [goal for _, goal in block.fresh("goals")]
        self._tell(web_steps.goals(goals), deltas)
        if self.trail:
            self.trail.note_goals(goals)
        for _, step in block.fresh("steps"):
            self._read_step(object_of(step), deltas)
        progress = web_steps.progress(block.value)
        if progress and progress != self._progress:
            self._progress = progress
            deltas.append(progress)

    def _read_step(self, step: dict[str, object], deltas: list[Delta]) -> None:
        self._tell(web_steps.step_lines(step), deltas)
        deltas += self._sources.extend(Place.SEARCH_STEP, web_steps.step_results(step))
        if self.trail:
            self.trail.note_step(step)

    def _read_results(self, block: Block, deltas: list[Delta]) -> None:
        fresh = block.fresh("web_results")
        if block.patched is None:
            deltas += self._sources.replace(Place.BLOCK, [item for _, item in fresh])
        else:
            deltas += self._sources.update(Place.BLOCK, fresh, len(items_of(block.value.get("web_results"))))
        self._tell(web_steps.pages_found(fresh), deltas)
        if self.trail:
            self.trail.note_found(item for _, item in fresh)

    def _read_workflow(self, block: Block, deltas: list[Delta], answer: list[str]) -> None:
        for item in workflow.fresh_items(block):
            queries, sources = workflow.item_queries(item), workflow.item_sources(item)
            self._tell(web_steps.queries(queries), deltas)
            deltas += self._sources.extend(Place.WORKFLOW, sources)
            self._tell(web_steps.pages_found(enumerate(sources)), deltas)
            if self.trail:
                self.trail.note_queries(queries)
                self.trail.note_found(sources)
            payload = workflow.item_answer(item)
            if payload and (text := self._tracks.read_workflow(payload)):
                answer.append(text)

    def _read_legacy(self, frame: Frame, deltas: list[Delta]) -> None:
        self._tell(web_steps.goals(items_of(object_of(frame.plan).get("goals"))), deltas)
        deltas += self._sources.replace(Place.TOP_LEVEL, items_of(frame.web_results))
        if self.trail:
            self.trail.note_plan(frame.plan)
            self.trail.note_found(items_of(frame.web_results))

    def _read_steps(self, text: str, deltas: list[Delta], answer: list[str]) -> None:
        """The `text` member (perplexity-web §8)."""
        steps, whole = web_steps.read_step_list(text)
        for step in steps:
            self._read_step(step, deltas)
            self._report = web_steps.step_report(step) or self._report
            final, results = web_steps.final_answer(step)
            whole = whole if final is None else final
            deltas += self._sources.replace(Place.FINAL_STEP, results)
            if self.trail:
                self.trail.note_found(results)
        if new := self._tracks.read_final(whole):
            answer.append(new)
