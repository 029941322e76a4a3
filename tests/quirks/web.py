"""perplexity-web §17, lines 1 to 3 and 5 to 8: endpoints, sessions, threads, functions, quota, models."""

from __future__ import annotations

from tests.quirks import web_answers, web_shapes, web_uploads
from tests.quirks.row import Quirk, Unused

_PATHS = "proxy/protocol/web_request.py"
_JAR = "proxy/protocol/session.py"
_CALLS = "proxy/upstream/test_web.py"
_JAR_TESTS = "proxy/protocol/test_session.py"
_BRIDGE = "proxy/protocol/functions_answer.py"
_BELIEVES = "proxy/protocol/test_functions.py::test_it_believes_nothing_but_the_protocol"

ENDPOINTS = (
    Quirk(
        "web 1: every base URL is a setting", "",
        "portal/services/upstreams.py::live_web",
        "settings.PPLX_WEB_URL", '"https://www.perplexity.ai"',
        "portal/services/test_upstreams.py::test_it_speaks_to_the_web_where_the_settings_say",
    ),
    Quirk(
        "web 1: session check", "",
        f"{_PATHS}::SESSION_PATH", "/api/auth/session", "/api/auth",
        f"{_CALLS}::test_it_says_whose_session_it_is",
    ),
    Quirk(
        "web 1: ask", "",
        f"{_PATHS}::ASK_PATH", "/rest/sse/perplexity_ask", "/rest/sse/ask",
        f"{_CALLS}::test_it_reads_an_answer_to_its_end",
    ),
    Quirk(
        "web 1: rate limits", "",
        f"{_PATHS}::QUOTA_PATH", "/rest/rate-limit/all", "/rest/rate-limit",
        f"{_CALLS}::test_it_reads_what_is_left",
    ),
    Quirk(
        "web 1: version of REST calls", "",
        f"{_PATHS}::versioned", "?version={version}&source=default", "",
        "proxy/protocol/test_web_request.py::test_it_names_its_paths",
    ),
    Quirk(
        "web 1: resume", "",
        f"{_PATHS}::reconnect_path", "{ASK_PATH}/reconnect/", "{ASK_PATH}/again/",
        f"{_CALLS}::test_it_takes_an_answer_up_again",
    ),
    Quirk(
        "web 1: resume, with everything so far", "",
        f"{_PATHS}::reconnect_body", '{"reconnectInitialSnapshot": True}', "{}",
        "proxy/protocol/test_web_request.py::test_it_resumes_stops_and_deletes",
    ),
    Quirk(
        "web 1: resume, a thread that is gone answers 403", "expire no-resume",
        "proxy/services/deep_watch.py::look",
        "if fault is not None and fault.kind is FaultKind.FORBIDDEN and not answer.over:", "if False:",
        "research/services/test_web_runs.py::test_it_gives_everything_back_when_nothing_was_delivered",
    ),
    Quirk(
        "web 1: stop", "cancel-slow",
        f"{_PATHS}::TERMINATE_PATH", "perplexity_terminate", "terminate",
        f"{_CALLS}::test_it_stops_and_removes_what_it_asked",
    ),
    Quirk(
        "web 1: stop, which the upstream may not confirm", "",
        "research/services/stopping.py::record_answer",
        "without_answer(run, answer, now)", "finish(run)",
        "research/services/test_advance.py::test_it_stops_without_an_upstream_that_never_confirms",
    ),
    Quirk(
        "web 1: delete", "",
        f"{_PATHS}::DELETE_PATH", "delete_thread_by_entry_uuid", "delete",
        f"{_CALLS}::test_it_stops_and_removes_what_it_asked",
    ),
    Quirk(
        "web 1: catalogue of models", "",
        "proxy/upstream/web.py::CATALOGUE_PATH", "/rest/models/config", "/rest/models",
        f"{_CALLS}::test_it_reads_the_catalogue",
    ),
    Quirk(
        "web 1: FlareSolverr, JSON shown as a page", "gated",
        "proxy/protocol/quota.py::read_solved", "html.unescape(shown[1]) if shown else page", "page",
        f"{_JAR_TESTS}::test_it_reads_the_page_that_a_browser_makes_of_json",
    ),
    Quirk(
        "web 1: FlareSolverr, which fails", "unsolved",
        "proxy/protocol/quota.py::read_solved",
        'if value.get("status") != "ok" or solution.get("status") != 200:', "if False:",
        f"{_JAR_TESTS}::test_it_leaves_the_counters_alone_when_there_is_no_page",
    ),
    Quirk(
        "web 1: FlareSolverr, ok with the challenge", "halfsolved",
        "proxy/protocol/quota.py::read_quota",
        "None if pro is None or research is None else Quota(pro, research)",
        "Quota(pro or 0, research or 0)",
        f"{_CALLS}::test_it_believes_no_page_without_counters",
    ),
    Quirk(
        "web 1: ntfy, the topic that everybody shares", "",
        "portal/services/notify.py::topic", " and name != SHARED_TOPIC", "",
        "portal/services/test_notify.py::test_it_takes_no_topic_that_others_read",
    ),
    Quirk(
        "web 1: ntfy, a server that refuses", "",
        "proxy/services/alerts.py::_tell", "if not notify.send(_expired(account)):",
        "if not notify.send(_expired(account)) and False:",
        "proxy/services/test_alerts.py::test_the_cooldown_begins_with_a_message_that_was_delivered",
    ),
)  # fmt: skip

SESSIONS = (
    Quirk(
        "web 2: expired, 200 and no user", "expired",
        f"{_JAR}::read_session", "if not user:", "if False:",
        f"{_JAR_TESTS}::test_it_believes_the_user_and_never_the_status",
    ),
    Quirk(
        "web 2: rejected, 401", "rejected unauthorized unauthorized-empty",
        "proxy/protocol/verdicts.py::_KINDS", "401: FaultKind.SIGNED_OUT", "401: FaultKind.REJECTED",
        f"{_CALLS}::test_it_tells_refused_sessions_apart",
    ),
    Quirk(
        "web 2: blocked, 403 with a page", "blocked",
        "proxy/protocol/verdicts.py::judge", "(status == 403 or 200 <= status < 300)", "200 <= status < 300",
        "proxy/protocol/test_verdicts.py::test_it_tells_the_answers_of_the_upstream_apart",
    ),
    Quirk(
        "web 2: blocked is not expired", "challenged",
        "proxy/services/keepalive.py::record", "elif verdict.kind in REFUSALS:", "elif True:",
        "proxy/services/test_keepalive.py::test_cloudflare_s_page_is_no_expired_session",
    ),
    Quirk(
        "web 2: rotating, a new value each time", "rotating",
        "proxy/services/keepalive.py::check_accounts", "if isinstance(verdict, SignedIn):", "if False:",
        "proxy/services/test_keepalive.py::test_it_keeps_the_token_that_the_check_rotated",
    ),
    Quirk(
        "web 2: rotating, asks too", "restless",
        "proxy/services/relay.py::Relay._kept", "await rotation.keep_cookies(plan.session, opened)", "pass",
        "proxy/services/test_relay.py::test_it_keeps_a_session_alive_that_is_rotated_by_every_answer",
    ),
    Quirk(
        "web 2: rotating, the value before the previous one is refused", "",
        "proxy/services/accounts.py::store_cookies", " or is_late", "",
        "proxy/services/test_accounts.py::test_of_two_rotations_the_one_that_was_answered_last_stays",
    ),
    Quirk(
        "web 2: rotating, whose answers cross", "",
        "proxy/services/rotation.py::in_turn", "if lock is None:", "if True:",
        "proxy/services/test_rotation.py::test_it_asks_a_session_that_rotates_one_question_at_a_time",
    ),
    Quirk(
        "web 2: chunked, parts joined", "chunked",
        f"{_JAR}::token_of", '"".join(value for _, value in parts)', 'parts[0][1] if parts else ""',
        f"{_JAR_TESTS}::test_it_joins_the_parts_of_a_token_in_their_order",
    ),
    Quirk(
        "web 2: chunked, parts dropped when the plain name is back", "",
        f"{_JAR}::merge", "_drop_stale_token(merged, fresh)", "pass",
        f"{_JAR_TESTS}::test_it_merges_the_cookies_of_an_answer",
    ),
    Quirk(
        "web 2: the un-prefixed name gets free answers", "",
        f"{_JAR}::_sound", 'f"__Secure-{name}" if name.startswith(_BARE_NAME) else name', "name",
        f"{_JAR_TESTS}::test_it_takes_a_session_in_any_form",
    ),
    Quirk(
        "web 2: tiers", "free pro max",
        f"{_JAR}::_tier", 'return "max" if told == "max" else "pro"', 'return "pro"',
        f"{_JAR_TESTS}::test_it_reads_who_is_signed_in",
    ),
    Quirk(
        "web 2: busy, 429 for this session alone", "busy",
        "proxy/protocol/verdicts.py::_retry_after",
        "min(int(value), LONGEST_WAIT) if value.isascii() and value.isdecimal() else None", "None",
        f"{_CALLS}::test_it_tells_refused_sessions_apart",
    ),
    Quirk(
        "web 2: slots, so many answers at once", "slots",
        "proxy/services/accounts.py::_open",
        "ChatTurn.objects.filter(state=ChatTurn.State.OPEN, lease_until__gt=now)", "ChatTurn.objects.none()",
        "proxy/services/test_accounts.py::test_it_takes_no_more_than_an_account_may_do_at_once",
    ),
    Quirk(
        "web 2: walled, a good session and no answers", "walled",
        "proxy/services/keepalive.py::_alive", "if account.faults > 1 else 0", "if False else 0",
        "proxy/services/test_keepalive.py::test_it_lets_an_account_rest_whose_suspicion_comes_back",
    ),
    Quirk(
        "web 2: flaky, every third ask a 503", "flaky",
        "proxy/protocol/verdicts.py::EFFECTS",
        'FaultKind.UNAVAILABLE: Effect(message=', 'FaultKind.UNAVAILABLE: Effect(elsewhere=False, message=',
        "proxy/protocol/test_verdicts.py::test_it_tries_another_account_for_what_is_this_accounts_trouble",
    ),
)  # fmt: skip

THREADS = (
    Quirk(
        "web 3: a follow-up names the entry before", "recall",
        f"{_PATHS}::ask_body",
        '"last_backend_uuid": ask.follows.entry if ask.follows else None', '"last_backend_uuid": None',
        "proxy/protocol/test_web_request.py::test_it_follows_a_thread_as_the_browser_does",
    ),
    Quirk(
        "web 3: a thread without a token", "no-token",
        f"{_PATHS}::ask_body", "if ask.follows and ask.follows.token:", "if ask.follows:",
        "proxy/protocol/test_web_request.py::test_it_follows_a_thread_without_its_token_as_the_original_did",
    ),
    Quirk(
        "web 3: the token is missing in the first frames", "",
        "proxy/protocol/web_events.py::WebAnswer._read_thread", "token or now.token", '""',
        "proxy/protocol/test_web_samples.py::test_it_reads_each_golden_stream[auto]",
    ),
    Quirk(
        "web 3: an unknown thread, refused", "forget",
        "proxy/services/relay.py::Relay._recover",
        "if plan.follows and effect.anew and fault.param is None:", "if False:",
        "proxy/services/test_relay.py::test_it_asks_once_more_with_everything_when_a_thread_is_refused",
    ),
    Quirk(
        "web 3: nobody continues the thread of another", "",
        "proxy/services/continuity.py::Filing.scope", "str(self.user_id)", '""',
        "proxy/services/test_relay.py::test_it_never_continues_a_thread_of_somebody_else",
    ),
    Quirk(
        "web 3: a dropped client does not stop the run", "late-drop late-cut",
        "research/protocol/wire_web.py::_FAULTS", "FaultKind.CUT: Fault.LOST", "FaultKind.CUT: Fault.OUTAGE",
        "research/protocol/test_wire_web.py::test_it_knows_what_each_fault_means_for_a_run",
    ),
)  # fmt: skip

BRIDGE = (
    Quirk(
        "web 5: a valid call", "bridge=call",
        f"{_BRIDGE}::read_answer", 'if kind == "function_calls":', "if False:",
        "proxy/protocol/test_functions.py::test_it_reads_calls_with_compact_arguments",
    ),
    Quirk(
        "web 5: two calls", "bridge=two",
        f"{_BRIDGE}::_calls", "if offer.one_call and len(calls) > 1:", "if len(calls) > 1:",
        "proxy/protocol/test_functions.py::test_it_reads_calls_with_compact_arguments",
    ),
    Quirk(
        "web 5: two calls where one was allowed", "",
        f"{_BRIDGE}::_calls", "if offer.one_call and len(calls) > 1:", "if False:",
        "proxy/protocol/test_functions.py::test_it_holds_the_model_to_the_choice",
    ),
    Quirk(
        "web 5: a message in its envelope", "bridge=message",
        f"{_BRIDGE}::read_answer", 'if kind == "message":', "if False:",
        "proxy/protocol/test_functions.py::test_it_reads_a_message_as_it_is",
    ),
    Quirk(
        "web 5: prose", "bridge=prose bridge=empty",
        f"{_BRIDGE}::_read_json", 'raise violation("the answer is not one JSON document") from None',
        'return {"type": "message", "content": text}', _BELIEVES,
    ),
    Quirk(
        "web 5: fenced JSON", "bridge=fenced",
        f"{_BRIDGE}::read_answer", "_read_json(text)",
        '_read_json(text.removeprefix("```json").removesuffix("```"))', _BELIEVES,
    ),
    Quirk(
        "web 5: wrong arguments", "bridge=wrong",
        f"{_BRIDGE}::_call", "if (fault := function.arguments.fault_of(arguments)) is not None:",
        "if fault := False:",
        _BELIEVES,
    ),
    Quirk(
        "web 5: an unknown function", "bridge=unknown",
        f"{_BRIDGE}::_call", "if function is None:",
        "function = function or list(allowed.values())[-1]\n    if function is None:", _BELIEVES,
    ),
    Quirk(
        "web 5: a key twice", "bridge=duplicate",
        f"{_BRIDGE}::_object", "if len(found) != len(pairs):", "if False:", _BELIEVES,
    ),
    Quirk(
        "web 5: a key too many", "bridge=extra",
        f"{_BRIDGE}::_only", "if set(value) != set(names):", "if not set(names) <= set(value):", _BELIEVES,
    ),
    Quirk(
        "web 5: NaN", "bridge=nan",
        f"{_BRIDGE}::_no_constant", 'raise violation(f"{word} is no number in JSON")', "return float(word)",
        _BELIEVES,
    ),
)  # fmt: skip

QUOTA = (
    Quirk(
        "web 6: counters, whole numbers only", "",
        "proxy/protocol/quota.py::_count", " and not isinstance(value, bool)", "",
        f"{_JAR_TESTS}::test_it_reads_the_counters",
    ),
    Quirk(
        "web 6: each counted answer takes one", "left",
        "proxy/services/accounts.py::succeed", "account.remaining_pro -= 1", "pass",
        "proxy/services/test_accounts.py::test_it_counts_an_answer_and_clears_what_troubled_the_account",
    ),
    Quirk(
        "web 6: deep research takes one of its own", "",
        "proxy/services/accounts.py::note_research", 'F("remaining_research") - 1', 'F("remaining_research")',
        "research/services/test_web_runs.py::test_it_takes_one_from_the_counter_of_research_alone",
    ),
    Quirk(
        "web 6: none left", "limited",
        "proxy/services/accounts.py::_is_used_up", "return left == 0 and is_known", "return False",
        "proxy/services/test_accounts.py::test_it_asks_an_account_without_uses_for_what_is_not_counted",
    ),
)  # fmt: skip

MODELS = (
    Quirk(
        "web 7: an unknown preference is a 400", "invalid not-found unprocessable too-large",
        "proxy/protocol/verdicts.py::_kind", "else FaultKind.REJECTED", "else FaultKind.UNAVAILABLE",
        f"{_CALLS}::test_it_says_that_a_model_is_not_accepted",
    ),
    Quirk(
        "web 7: which discovery calls dead", "",
        "proxy/protocol/discovery.py::probe_result", "(FaultKind.REJECTED, FaultKind.EMPTY)",
        "(FaultKind.EMPTY,)",
        "proxy/protocol/test_discovery.py::test_it_reads_a_probe",
    ),
    Quirk(
        "web 7: another model answers", "substitute",
        "proxy/protocol/model_used.py::ModelWatch.see",
        "used = ModelUsed(display, substituted=True)", "used = ModelUsed(display, substituted=False)",
        "proxy/protocol/test_web_samples.py::test_it_reads_each_golden_stream[thinking-substituted]",
    ),
)  # fmt: skip

REGRESSIONS = tuple(
    Quirk(
        f"web 8: a body without {name} is refused", "",
        f"{_PATHS}::ask_body", f'        "{name}":', f'        "{name}_":',
        f"{_CALLS}::test_it_reads_an_answer_to_its_end",
    )
    for name in ("search_focus", "version", "model_preference")
)  # fmt: skip
VERSION = Quirk(
    "web 8: another version is refused", "",
    "proxy/services/chat.py::ChatPlan.ask", "settings.PPLX_API_VERSION", '"2.17"',
    "proxy/api/test_chat.py::test_it_answers_plainly",
)  # fmt: skip

QUIRKS = (
    *ENDPOINTS,
    *web_uploads.QUIRKS,
    *SESSIONS,
    *THREADS,
    *web_shapes.QUIRKS,
    *web_answers.QUIRKS,
    *BRIDGE,
    *QUOTA,
    *MODELS,
    *REGRESSIONS,
    VERSION,
)

UNUSED = (
    Unused("web 1: batch_create_upload_urls", "", "files are announced one by one, as the seed does"),
    Unused("web 1: rate-limit/status", "", "rate-limit/all tells all that is shown"),
    Unused("web 1: search/new", "", "some clients visit it first, which the upstream does not ask for"),
    Unused("web 4: what an answer says", "say pieces duration", "they steer the answer of a test"),
)
