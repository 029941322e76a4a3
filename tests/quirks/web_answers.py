"""perplexity-web §17, line 4: refusals inside a 200, time, status, and how the bytes come."""

from __future__ import annotations

from tests.quirks.row import Quirk

_EVENTS = "proxy/protocol/web_events.py"
_REFUSALS = "proxy/protocol/refusals.py"
_VERDICTS = "proxy/protocol/verdicts.py"
_FINISHING = "proxy/protocol/finishing.py"
_SSE = "portal/wire/sse.py"
_WATCH = "proxy/upstream/patience.py"
_SSE_TESTS = "portal/wire/test_sse.py"
_TOLD_APART = "proxy/protocol/test_verdicts.py::test_it_tells_the_answers_of_the_upstream_apart"


def golden(sample: str) -> str:
    return f"proxy/protocol/test_web_samples.py::test_it_reads_each_golden_stream[{sample}]"


REFUSALS = (
    Quirk(
        "web 4: upsell", "upsell",
        f"{_REFUSALS}::_upsell_kind", 'if "quota" in name or "UPGRADE" in kind:', "if False:",
        golden("quota"),
    ),
    Quirk(
        "web 4: authwall", "authwall",
        f"{_REFUSALS}::_upsell_kind",
        'if kind == "LOGIN" or any(word in name for word in _SIGN_IN_NAMES):', "if False:",
        golden("authwall"),
    ),
    Quirk(
        "web 4: failed", "failed failed-silent",
        f"{_REFUSALS}::refusal", ' or frame.status == "FAILED"', "", golden("failed"),
    ),
    Quirk(
        "web 4: error-event", "error-stream",
        f"{_EVENTS}::WebAnswer.read", 'if record.event == "error":', "if False:", golden("error-event"),
    ),
    Quirk(
        "web 4: a frame with an error", "error-frame",
        f"{_REFUSALS}::refusal", "frame.error_code or frame.error or", "frame.error_code or",
        golden("error-member"),
    ),
    Quirk(
        "web 4: a frame with an error code", "error-code",
        f"{_REFUSALS}::refusal", "frame.error_code or frame.error or", "frame.error or",
        golden("error-code"),
    ),
    Quirk(
        "web 4: a limit by its code", "",
        f"{_REFUSALS}::_told", 'if "RATE_LIMIT" in words', "if False", golden("error-code"),
    ),
    Quirk(
        "web 4: broken-json", "broken-json",
        f"{_EVENTS}::WebAnswer.read", "self._end(Fault(FaultKind.BROKEN)) if frame is None",
        "[] if frame is None", golden("broken-json"),
    ),
    Quirk(
        "web 4: a JSON array as data", "array-frame",
        f"{_EVENTS}::WebAnswer.read", "self._end(Fault(FaultKind.BROKEN)) if frame is None",
        "[] if frame is None", golden("array-as-frame"),
    ),
    Quirk(
        "web 4: cut", "end-stream no-end",
        f"{_EVENTS}::WebAnswer.close", "Fault(FaultKind.CUT)", "self.verdict()", golden("completed-but-cut"),
    ),
    Quirk(
        "web 4: cut, the connection", "cut cut-stream",
        "proxy/upstream/web.py::Opened.read",
        "except Lost:", "except ZeroDivisionError:",
        "proxy/upstream/test_web.py::test_it_tells_refused_questions_apart",
    ),
    Quirk(
        "web 4: empty", "empty",
        f"{_EVENTS}::WebAnswer.verdict", "if not done.answer.strip():", "if False:",
        "proxy/protocol/test_web_verdicts.py::test_it_takes_no_answer_for_one_that_says_nothing",
    ),
    Quirk(
        "web 4: empty, once it is cleaned", "",
        f"{_FINISHING}::Finisher._done", "if not self.content.strip():", "if False:", golden("only-markup"),
    ),
    Quirk(
        "web 4: rewrite", "rewrite",
        f"{_FINISHING}::Finisher._done", "if ending is None:",
        'ending = ending or _Ending("", (), done.sources)\n        if ending is None:', golden("rewritten"),
    ),
    Quirk(
        "web 4: rewrite, marks numbered anew", "renumber",
        f"{_FINISHING}::Finisher._done",
        "_Ending.of(self.content, final, marks, done, keeps_marks=self.keeps_marks)",
        '_Ending("", marks, done.sources) if done.answer.startswith(self.content) else None',
        golden("renumbered"),
    ),
    Quirk(
        "web 4: rewrite, marks sent before their sources were known", "",
        f"{_FINISHING}::_Ending.of", "bare_final = bare_final[lead:]", "return None",
        "proxy/protocol/test_finishing.py::test_it_finds_the_marks_of_the_last_telling_in_what_was_sent",
    ),
    Quirk(
        "web 4: rewrite, everything taken back", "retract",
        f"{_EVENTS}::WebAnswer.verdict",
        "FaultKind.REWRITTEN if self._tracks.taken_back else FaultKind.EMPTY",
        "FaultKind.EMPTY", golden("taken-back"),
    ),
    Quirk(
        "web 4: stopped, which says COMPLETED too", "stopped",
        f"{_EVENTS}::WebAnswer._read_frame", "self._stopped = frame.text_completed is False", "pass",
        golden("stopped"),
    ),
)  # fmt: skip

TIME = (
    Quirk(
        "web 4: slow, the first event", "slow first-frame",
        f"{_WATCH}::Watch.left", "self.patience.silence if self.spoke else self.patience.first",
        "self.patience.silence",
        "proxy/upstream/test_patience.py::test_it_counts_only_the_time_that_the_upstream_was_waited_for",
    ),
    Quirk(
        "web 4: slow, the whole", "stuck",
        f"{_WATCH}::Watch.left", "min(allowed - quiet, whole)", "allowed - quiet",
        "proxy/upstream/test_patience.py::test_it_gives_nothing_once_the_whole_is_over",
    ),
    Quirk(
        "web 4: silence, heartbeats are no events", "idle-stream heartbeat",
        f"{_WATCH}::_EVENT", r"[^:\r\n]", r"[^\r\n]",
        "proxy/upstream/test_patience.py::test_it_takes_no_heartbeat_for_an_event",
    ),
    Quirk(
        "web 4: silence, heartbeats are no data", "",
        f"{_SSE}::SseDecoder._read", 'if name == b"data":', 'if name in (b"data", b""):', golden("auto"),
    ),
)  # fmt: skip

STATUS = (
    Quirk(
        "web 4: http-403json, the session is asked", "forbidden",
        f"{_VERDICTS}::EFFECTS", "FaultKind.FORBIDDEN: Effect(check=True, ", "FaultKind.FORBIDDEN: Effect(",
        "proxy/protocol/test_verdicts.py::test_it_asks_the_session_endpoint_before_it_believes_a_refusal",
    ),
    Quirk(
        "web 4: http-403html, by its marks", "challenge challenge-block",
        f"{_VERDICTS}::judge", "(html and _is_challenge(body))", "False", _TOLD_APART,
    ),
    Quirk(
        "web 4: http-403html, by its header", "",
        f"{_VERDICTS}::judge", 'headers.get("cf-mitigated", "").lower() == "challenge"', "False", _TOLD_APART,
    ),
    Quirk(
        "web 4: a page with status 200", "challenge-ok not-json",
        f"{_VERDICTS}::judge", " or 200 <= status < 300)", ")", _TOLD_APART,
    ),
    Quirk(
        "web 4: http-429", "rate-limit",
        f"{_VERDICTS}::_KINDS", "429: FaultKind.RATE_LIMITED", "429: FaultKind.REJECTED", _TOLD_APART,
    ),
    Quirk(
        "web 4: http-429, Retry-After of a minute at most", "retry-after",
        f"{_VERDICTS}::_retry_after", "min(int(value), LONGEST_WAIT)", "int(value)", _TOLD_APART,
    ),
    Quirk(
        "web 4: http-500 and the edge's pages", "server-error bad-gateway unavailable edge-error",
        f"{_VERDICTS}::_kind", "status >= 500 or status == 408", "status == 408", _TOLD_APART,
    ),
    Quirk(
        "web 4: http-504, the run may go on", "gateway-timeout",
        f"{_VERDICTS}::_GAVE_UP", "504, 524", "524,",
        "proxy/protocol/test_verdicts.py::test_it_leaves_open_what_became_of_a_question_that_the_edge_gave_up",
    ),
    Quirk(
        "web 4: a session check that is no object", "not-object",
        "proxy/protocol/session.py::read_session", "if not isinstance(value, dict):", "if value is None:",
        "proxy/protocol/test_session.py::test_it_believes_the_user_and_never_the_status",
    ),
    Quirk(
        "web 4: a 200 without a byte", "empty-body",
        f"{_EVENTS}::WebAnswer.close", "[] if self.over else self._end(Fault(FaultKind.CUT))", "[]",
        "proxy/protocol/test_web_samples.py::test_it_fails_when_the_body_ends_early",
    ),
    Quirk(
        "web 4: no answer at all", "drop",
        "proxy/upstream/web.py::_open", "(Unreachable, Lost, TimeoutError)", "(Unreachable, TimeoutError)",
        "proxy/upstream/test_web.py::test_it_tells_refused_questions_apart",
    ),
)  # fmt: skip

BYTES = (
    Quirk(
        "web 4: huge, a frame of a megabyte", "terminal-kib",
        f"{_SSE}::LONGEST", "16 * 1024 * 1024", "512 * 1024",
        f"{_SSE_TESTS}::test_it_takes_the_largest_frames_of_the_upstream",
    ),
    Quirk(
        "web 4: huge, a line without an end", "endless-line",
        f"{_SSE}::SseDecoder.feed", "if self._line_size + self._data_size > self.longest:", "if False:",
        f"{_SSE_TESTS}::test_it_gives_up_on_a_record_without_an_end",
    ),
    Quirk(
        "web 4: split-utf8", "split-utf8",
        f"{_SSE}::SseDecoder._keep", "self._line.append(piece)",
        'self._line.append(piece.decode("utf-8", "replace").encode())',
        f"{_SSE_TESTS}::test_it_reads_a_stream_cut_anywhere",
    ),
    Quirk(
        "web 4: records cut anywhere", "dribble",
        f"{_SSE}::SseDecoder._lines", "self._keep(lines.pop())", "lines.pop()",
        f"{_SSE_TESTS}::test_it_reads_a_stream_cut_anywhere",
    ),
    Quirk(
        "web 4: LF framing", "framing=lf",
        f"{_SSE}::SseDecoder._lines", "data.splitlines()",
        r'data.replace(b"\r\n", b"\0").replace(b"\n", b" ").replace(b"\0", b"\r\n").splitlines()',
        golden("lf-framing"),
    ),
    Quirk(
        "web 4: framing, several data lines", "framing=odd",
        f"{_SSE}::SseDecoder._dispatch", r'b"\n".join(self._data)', "self._data[0]",
        golden("frame-over-two-lines"),
    ),
    Quirk(
        "web 4: framing, no blank after the colon", "",
        f"{_SSE}::SseDecoder._read", 'value = value.removeprefix(b" ")', "value = value[1:]",
        f"{_SSE_TESTS}::test_it_reads_as_the_standard_says",
    ),
    Quirk(
        "web 4: framing, a record without a name", "",
        f"{_SSE}::SseDecoder._dispatch", ' or "message"', "",
        f"{_SSE_TESTS}::test_it_reads_as_the_standard_says",
    ),
    Quirk(
        "web 4: framing, names that nobody knows", "",
        f"{_EVENTS}::WebAnswer.read", 'if record.event == "message":',
        'if record.event not in ("end_of_stream", "error"):',
        "proxy/protocol/test_web_verdicts.py::test_it_takes_no_notice_of_events_that_it_does_not_know",
    ),
    Quirk(
        "web 4: half characters in JSON", "",
        "proxy/protocol/web_frame.py::read_frame", "mended = _mended(data)", "mended = None",
        golden("halved-characters"),
    ),
)  # fmt: skip

QUIRKS = (*REFUSALS, *TIME, *STATUS, *BYTES)
