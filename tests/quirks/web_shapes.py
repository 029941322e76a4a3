"""perplexity-web §17, line 4: the shapes of an answer, and the models that give it."""

from __future__ import annotations

from tests.quirks.row import Quirk
from tests.quirks.web_answers import golden

_EVENTS = "proxy/protocol/web_events.py"
_TRACKS = "proxy/protocol/answer_tracks.py"
_STEPS = "proxy/protocol/web_steps.py"
_USED = "proxy/protocol/model_used.py"
_FINISHING = "proxy/protocol/finishing.py"
_WATCH = "proxy/upstream/patience.py"
_MODEL_TESTS = "proxy/protocol/test_models.py"

SHAPES = (
    Quirk(
        "web 4: normal, pieces placed by offset", "shape=chunks",
        f"{_TRACKS}::AnswerTracks.read_pieces", "self.text.place(piece.chunk_starting_offset, piece.chunks)",
        "self.text.place(None, piece.chunks)", golden("offsets-out-of-order"),
    ),
    Quirk(
        "web 4: normal, a piece that comes again", "resend-chunks",
        "proxy/protocol/answer_text.py::AnswerText.place",
        "self.count if offset is None else offset", "self.count", golden("repeated-frames"),
    ),
    Quirk(
        "web 4: normal, marks of sources taken out", "",
        f"{_FINISHING}::Finisher.pass_on", "self._text(self._stripper.feed(delta.text), out)",
        "self._text(delta.text, out)", golden("auto"),
    ),
    Quirk(
        "web 4: normal, the last list counts", "",
        "proxy/protocol/web_sources.py::SourceList.replace",
        "if not items or place < self._place", "if not items or self._sources or place < self._place",
        "proxy/protocol/test_web_verdicts.py::test_it_counts_by_the_last_list",
    ),
    Quirk(
        "web 4: normal, only end_of_stream is the end", "",
        f"{_EVENTS}::WebAnswer.read", "else self._read_frame(frame)",
        "else self._read_frame(frame) + (self._end(self.verdict()) if frame.text_completed else [])",
        "proxy/protocol/test_web_samples.py::test_it_does_not_stop_at_a_frame_that_only_says_final",
    ),
    Quirk(
        "web 4: normal, without a COMPLETED frame", "no-completed",
        f"{_EVENTS}::WebAnswer.verdict", "if self._stopped:", "if self._stopped or not self.complete:",
        golden("end-without-completed-frame"),
    ),
    Quirk(
        "web 4: thinking, goals", "thinking",
        f"{_EVENTS}::WebAnswer._read_plan", "self._tell(web_steps.goals(goals), deltas)", "pass",
        golden("thinking-substituted"),
    ),
    Quirk(
        "web 4: thinking, searches", "",
        f"{_STEPS}::step_lines", 'case "SEARCH_WEB":', 'case "SEARCH":', golden("thinking-substituted"),
    ),
    Quirk(
        "web 4: thinking, pages read", "",
        f"{_STEPS}::step_lines", 'case "READ_RESULTS":', 'case "READ":', golden("thinking-substituted"),
    ),
    Quirk(
        "web 4: thinking, another member for the plan", "",
        f"{_EVENTS}::_PLANS", '"plan_block", "reasoning_plan_block"', '"plan_block",',
        golden("research-assets"),
    ),
    Quirk(
        "web 4: thinking, top-level plan and sources", "legacy-sources",
        f"{_EVENTS}::WebAnswer._read_frame", "if frame.plan or frame.web_results:", "if False:",
        golden("top-level-members"),
    ),
    Quirk(
        "web 4: research, the step list is asked for", "",
        "proxy/protocol/web_request.py::ask_body", "ask.preference == RESEARCH", "False",
        "proxy/protocol/test_web_request.py::test_it_asks_research_for_its_step_list_where_the_report_is",
    ),
    Quirk(
        "web 4: research, the report in the step list", "report-in=text",
        f"{_EVENTS}::WebAnswer._read_steps", "web_steps.step_report(step) or self._report", "self._report",
        golden("research-diff"),
    ),
    Quirk(
        "web 4: research, the report in the assets", "report-in=assets",
        f"{_EVENTS}::WebAnswer._read_block", 'elif block.field == "unified_assets_block":', "elif False:",
        golden("research-assets"),
    ),
    Quirk(
        "web 4: research, a cover note alone", "report-in=none",
        "research/protocol/wire_web.py::read_finished", "complete=bool(answer.report)", "complete=True",
        "research/protocol/test_wire_web.py::test_it_calls_a_cover_note_without_its_report_incomplete",
    ),
    Quirk(
        "web 4: research, progress", "",
        f"{_STEPS}::progress", 'whole_of(plan.get("pct_complete"))', "None", golden("research-diff"),
    ),
    Quirk(
        "web 4: research, a minute for questions that nobody answers", "clarify",
        f"{_WATCH}::patience_for", "if preference == RESEARCH:", "if False:",
        "proxy/upstream/test_patience.py::test_it_has_more_patience_with_research",
    ),
    Quirk(
        "web 4: mirrored tracks, one is read", "mirror",
        f"{_TRACKS}::AnswerTracks._followed", "return tracks[self._track]",
        "return list(tracks.values())[-1]", golden("second-track-ignored"),
    ),
    Quirk(
        "web 4: mirrored tracks, the other alone", "mirror-only",
        f"{_TRACKS}::_TRACK", r"ask_text(?:_\d{1,4}_markdown)?", "ask_text", golden("first-track-kept"),
    ),
    Quirk(
        "web 4: mirrored tracks, one after the other", "track-switch",
        f"{_TRACKS}::AnswerTracks._followed", "if self._track not in tracks:", "if not self._track:",
        golden("track-switch"),
    ),
    Quirk(
        "web 4: diff mode", "shape=patches",
        "proxy/protocol/documents.py::Documents.read", "if isinstance(diff, dict):", "if False:",
        golden("diff-without-snapshot"),
    ),
    Quirk(
        "web 4: diff mode, a patch that does not fit", "",
        "proxy/protocol/documents.py::Documents._patch", "self.lost.add(key)", "pass", golden("diff-unfit"),
    ),
    Quirk(
        "web 4: workflow mode", "shape=workflow",
        f"{_EVENTS}::WebAnswer._read_block", 'elif block.field == "workflow_block":', "elif False:",
        golden("workflow"),
    ),
    Quirk(
        "web 4: workflow mode, thoughts are no answer", "",
        "proxy/protocol/workflow.py::item_answer",
        '(variant is None or text_of(variant).lower() == "answer")',
        "True", golden("workflow-thought-is-no-answer"),
    ),
    Quirk(
        "web 4: cumulative text", "shape=text last-text",
        f"{_EVENTS}::WebAnswer._read_frame",
        "if isinstance(frame.text, str) and frame.text != self._steps_text:", "if False:",
        golden("legacy-steps"),
    ),
    Quirk(
        "web 4: cumulative text, FINAL in plain words", "text-form=string",
        f"{_STEPS}::final_answer", 'return answer, items_of(content_of(step).get("web_results"))',
        "return None, []", golden("final-answer-as-plain-text"),
    ),
    Quirk(
        "web 4: cumulative text, one object", "text-form=object",
        f"{_STEPS}::read_step_list", 'return [], text_of(value["answer"])', "return [], None",
        golden("text-as-an-object"),
    ),
    Quirk(
        "web 4: cumulative text, no JSON at all", "text-form=plain",
        f"{_STEPS}::read_step_list", "return [], None if isinstance(value, dict) else text",
        "return [], None",
        golden("plain-text-member"),
    ),
    Quirk(
        "web 4: several shapes at once, one is followed", "",
        f"{_TRACKS}::AnswerTracks._may_follow", "return self._shape is None or self._shape == shape",
        "return True", golden("legacy-steps-beside-blocks"),
    ),
)  # fmt: skip

MODELS = (
    Quirk(
        "web 4: substitute, a thinking id without its suffix is honest", "",
        f"{_USED}::same_model", 'in (base, base.rstrip("_"))', "in (base,)",
        golden("thinking-without-suffix"),
    ),
    Quirk(
        "web 4: substitute, turbo is pplx_pro", "",
        f"{_USED}::_BEST", '"pplx_pro", "turbo"', '"pplx_pro",', golden("auto"),
    ),
    Quirk(
        "web 4: substitute, from the middle on", "switch",
        f"{_USED}::ModelWatch.see", "self.used.substituted or ", "",
        f"{_MODEL_TESTS}::test_it_keeps_to_the_first_substitution",
    ),
    Quirk(
        "web 4: aux-tail", "aux-tail",
        f"{_USED}::ModelWatch.see", "elif self._is_tail(piece, emitted):", "elif False:",
        golden("minor-tail"),
    ),
    Quirk(
        "web 4: no-model", "no-model",
        f"{_USED}::ModelWatch.see", "if not display or (", "if (", golden("no-model-named"),
    ),
)  # fmt: skip

QUIRKS = (*SHAPES, *MODELS)
