"""perplexity-api §9: modes, the clock, texts and sources, the Agent API's quirks, faults, headers, costs."""

from __future__ import annotations

from tests.quirks.row import Quirk, Unused

_REFUSALS = "research/protocol/refusals.py"
_AGENT = "research/protocol/wire_agent.py"
_SONAR = "research/protocol/wire_sonar.py"
_JSON = "research/protocol/wire_json.py"
_RECOVERY = "research/protocol/recovery.py"
_TOLD_APART = "research/protocol/test_refusals.py::test_it_tells_refusals_apart"
_BY_CALL = "research/protocol/test_refusals.py::test_it_reads_a_status_by_what_was_asked"
_FIRST = "research/protocol/test_recovery.py::test_it_knows_what_a_first_refusal_means"
_AGENT_TESTS = "research/protocol/test_wire_agent.py"
_SONAR_TESTS = "research/protocol/test_wire_sonar.py"
_REPORT_TESTS = "research/protocol/test_report.py"
_RUNS = "research/services/test_advance.py"
_STOPPING = "research/services/test_stopping.py"

MODES = (
    Quirk(
        "api 1: legacy-live, both path families", "legacy-live",
        "research/backends/sonar.py::SonarSdkBackend", "/async/chat/completions", "/chat/completions",
        f"{_RUNS}::test_it_speaks_both_path_families_of_the_legacy_api",
    ),
    Quirk(
        "api 1: legacy-retired", "legacy-retired retired pplx-retired",
        f"{_REFUSALS}::_RETIRED", 'b"chat_completions_not_available", ', "", _TOLD_APART,
    ),
    Quirk(
        "api 1: agent, the second wording wherever it stands",
        "agent migration-required migration-required-code migration-required-text",
        f"{_REFUSALS}::_RETIRED", ', b"agent_api_migration_required"', ",", _TOLD_APART,
    ),
    Quirk(
        "api 1: retired goes to the next backend", "",
        f"{_RECOVERY}::CURED_BY_ANOTHER", "        Fault.RETIRED,\n", "", _FIRST,
    ),
)  # fmt: skip

CLOCK = (
    Quirk(
        "api 2: a job that fails", "failed",
        f"{_AGENT}::parse_snapshot", 'if state in ("failed", "cancelled"):', 'if state == "cancelled":',
        f"{_AGENT_TESTS}::test_it_ends_a_failed_job_with_the_upstreams_words",
    ),
    Quirk(
        "api 2: a job that fails, of Sonar", "",
        f"{_SONAR}::parse_snapshot", 'if state == "FAILED":', "if False:",
        f"{_SONAR_TESTS}::test_it_ends_a_failed_job_with_the_upstreams_words",
    ),
    Quirk(
        "api 2: a job that fails without a word", "failed-silent",
        f"{_AGENT}::_ended", "message or _END_WORDS[state]", "message",
        f"{_AGENT_TESTS}::test_it_ends_a_failed_job_with_the_upstreams_words",
    ),
    Quirk(
        "api 2: stuck in progress", "stuck stuck-queued",
        "research/services/watch.py::_record_progress", '"budget" if run.deadline_at <= now else ""', '""',
        f"{_RUNS}::test_it_fails_a_run_at_its_budget_when_there_is_no_text",
    ),
    Quirk(
        "api 2: expiry", "expire",
        f"{_REFUSALS}::_BY_STATUS", "404: Fault.GONE", "404: Fault.OUTAGE", _BY_CALL,
    ),
    Quirk(
        "api 2: expiry ends the run", "",
        "research/services/watch.py::_record_trouble", "elif refused.fault is Fault.GONE:", "elif False:",
        f"{_RUNS}::test_it_gives_up_a_run_that_the_upstream_forgot",
    ),
    Quirk(
        "api 2: a status that nobody knows", "unknown-status",
        f"{_AGENT}::parse_snapshot", "return Running(done.queries, done.fetched, done.found, done.text)",
        'return broken("has an unknown status")',
        f"{_AGENT_TESTS}::test_it_lets_a_job_of_unknown_status_go_on",
    ),
    Quirk(
        "api 2: cut at the token limit, with text", "incomplete",
        f"{_AGENT}::_finished", 'done if state == "completed" else', "done if True else",
        f"{_AGENT_TESTS}::test_it_delivers_text_that_was_cut_short_as_incomplete",
    ),
    Quirk(
        "api 2: cut at the token limit, of Sonar", "",
        f"{_SONAR}::_read_response", 'choice.get("finish_reason") == "length"', "False",
        f"{_SONAR_TESTS}::test_it_tells_a_report_that_was_cut_at_its_length",
    ),
    Quirk(
        "api 2: cut at the token limit, with nothing", "incomplete-empty",
        f"{_AGENT}::parse_snapshot", "if _has_report(done.text) else _ended(job, done, state)", "",
        f"{_AGENT_TESTS}::test_it_ends_a_job_that_spent_all_its_tokens_on_thinking",
    ),
    Quirk(
        "api 2: cancelled though nobody asked", "upstream-cancelled",
        f"{_AGENT}::parse_snapshot", 'if state in ("failed", "cancelled"):', 'if state == "failed":',
        f"{_AGENT_TESTS}::test_it_keeps_what_a_cancelled_job_had_delivered",
    ),
)  # fmt: skip

TEXTS = (
    Quirk(
        "api 3: empty citations, links recovered from the text", "no-sources-links",
        "research/protocol/report.py::_catalogue",
        "found or [Found(link.url) for link in inline.links]", "found",
        f"{_SONAR_TESTS}::test_it_recovers_what_the_empty_arrays_of_the_known_defect_left_out",
    ),
    Quirk(
        "api 3: empty citations, said plainly", "no-sources",
        "research/protocol/report.py::_notices", "elif not has_listed:", "elif False:",
        f"{_REPORT_TESTS}::test_it_says_plainly_that_nothing_is_attributed",
    ),
    Quirk(
        "api 3: full variant, marks count the places of search_results", "",
        f"{_SONAR}::_listed", "if any(page.url or page.title for page in results):", "if False:",
        f"{_SONAR_TESTS}::test_it_makes_a_report_whose_marks_count_the_search_results",
    ),
    Quirk(
        "api 3: citations alone", "citations-only",
        f"{_SONAR}::_listed", "return citations", "return []",
        f"{_SONAR_TESTS}::test_it_counts_citations_only_where_they_are_all_there_is",
    ),
    Quirk(
        "api 3: a think block", "think",
        "research/protocol/report.py::build_report", "text = thought.text.strip()",
        "text = finished.text.strip()",
        f"{_REPORT_TESTS}::test_it_sets_the_thinking_apart_and_trims_the_text",
    ),
    Quirk(
        "api 3: two think blocks", "think-two",
        "research/protocol/thinking.py::_blocks", "blocks.append((step.start(), position))",
        "return [(step.start(), position)]",
        "research/protocol/test_thinking.py::test_it_sets_blocks_apart",
    ),
    Quirk(
        "api 3: a think block that never ends", "think-unclosed",
        "research/protocol/thinking.py::_blocks", "elif not fence and step.start() in ends:",
        "elif not fence and (step.start() in ends or not ends.update({step.start(): len(text)})):",
        f"{_SONAR_TESTS}::test_it_keeps_a_report_whose_think_block_never_ends",
    ),
    Quirk(
        "api 3: content as a list", "content-parts",
        f"{_JSON}::content_text", "if isinstance(value, list):", "if False:",
        f"{_SONAR_TESTS}::test_it_reads_both_forms_of_content",
    ),
    Quirk(
        "api 3: content null or empty", "content-null empty",
        f"{_SONAR}::parse_snapshot",
        "done if split_thinking(done.text).text.strip() else Ended(error_message(job) or _NO_REPORT)", "done",
        f"{_SONAR_TESTS}::test_it_ends_a_job_without_a_report",
    ),
    Quirk(
        "api 3: marks that point nowhere", "marks-range",
        "research/protocol/attribution.py::_source_of", 'catalogue.by_number.get(number, "out_of_range")',
        "catalogue.by_number.get(number, 1)",
        f"{_REPORT_TESTS}::test_it_maps_a_mark_by_the_upstreams_numbers",
    ),
    Quirk(
        "api 3: marks in groups", "marks-groups",
        "research/protocol/citations.py::_read", "if _LIST.fullmatch(inside):", "if inside.isdecimal():",
        "research/protocol/test_citations.py::test_it_reads_marks_as_upstreams_write_them",
    ),
    Quirk(
        "api 3: marks in code and links", "marks-code marks-links",
        "portal/wire/links.py::find_links", "blocks.prose", "[(0, len(text))]",
        "research/protocol/test_citations.py::test_it_takes_nothing_else_for_a_mark",
    ),
    Quirk(
        "api 3: marks of undocumented numbering", "marks-web",
        "research/protocol/attribution.py::_source_of", 'bracket.style != "number" or ', "",
        f"{_REPORT_TESTS}::test_it_maps_a_mark_by_the_upstreams_numbers",
    ),
    Quirk(
        "api 3: sources without a title", "sources-bare no-snippet",
        "research/protocol/sources.py::_source", "or host_label(url) or UNNAMED", "",
        "research/protocol/test_sources.py::test_it_names_what_has_no_title_and_never_links_what_must_not_be",
    ),
    Quirk(
        "api 3: sources that must not become links", "hostile-sources",
        "research/protocol/sources.py::_source", 'linkable(items[0].url) or ""', "items[0].url",
        "research/protocol/test_sources.py::test_it_names_what_has_no_title_and_never_links_what_must_not_be",
    ),
    Quirk(
        "api 3: addresses of every kind, and twice", "urls-odd",
        "research/protocol/sources.py::_identity", "key = normalise(address)", "key = None",
        "research/protocol/test_sources.py::test_it_loses_no_source_and_makes_none",
    ),
    Quirk(
        "api 3: script in the report", "hostile",
        "portal/services/render.py::render_markdown", "return nh3.clean(", "return html or nh3.clean(",
        "portal/services/test_render.py::test_it_lets_nothing_hostile_through",
    ),
    Quirk(
        "api 3: a report of any size", "huge",
        "research/protocol/mcp_pages.py::pages_of", "while len(text) - start > size:", "while False:",
        "research/protocol/test_mcp_pages.py::test_it_ends_a_page_at_the_best_place_there_is",
    ),
    Quirk(
        "api 3: a report from right to left", "right-to-left",
        "portal/services/render.py::ATTRIBUTES", '{tag: {"dir"} for tag in TAGS}',
        "{tag: set() for tag in TAGS}",
        "portal/services/test_render.py::test_it_lets_every_block_find_its_own_direction",
    ),
    Quirk(
        "api 3: output items that nobody knows", "odd-items",
        f"{_AGENT}::_message_text", 'item.get("type") == "message" and', "",
        f"{_AGENT_TESTS}::test_it_takes_nobody_elses_words_for_the_answer",
    ),
)  # fmt: skip

AGENT = (
    Quirk(
        "api 4: created_at moves", "",
        "research/services/views.py::_view",
        "created_at=run.created_at", "created_at=run.completed_at or run.created_at",
        "research/api/test_retrieve.py::test_it_keeps_every_key_in_its_place_while_a_run_goes_on",
    ),
    Quirk(
        "api 4: the preset's name as model until the end", "",
        f"{_AGENT}::_read_output", 'model=line(job.get("model"), LONGEST_MODEL)', 'model="medium"',
        f"{_AGENT_TESTS}::test_it_reads_a_completed_job",
    ),
    Quirk(
        "api 4: null usage", "no-usage",
        f"{_AGENT}::_read_output", 'members(job.get("usage"))', 'job["usage"]',
        f"{_AGENT_TESTS}::test_it_reads_a_queued_job",
    ),
    Quirk(
        "api 4: sparse usage", "no-cost",
        f"{_AGENT}::_usage", 'members(usage.get("cost"))', 'usage["cost"]',
        f"{_AGENT_TESTS}::test_it_lets_a_job_of_unknown_status_go_on",
    ),
    Quirk(
        "api 4: partial output", "text-early",
        f"{_AGENT}::parse_snapshot", "return Running(done.queries, done.fetched, done.found, done.text)",
        "return Running()", f"{_AGENT_TESTS}::test_it_reads_partial_output_of_a_running_job",
    ),
    Quirk(
        "api 4: empty annotations, sources come from the searches", "",
        f"{_AGENT}::_results", 'count_of(result.get("id"))', "None",
        f"{_AGENT_TESTS}::test_it_makes_a_report_whose_marks_keep_the_upstreams_numbers",
    ),
    Quirk(
        "api 4: cancel race, the upstream goes on for a while", "cancel-lag",
        "research/services/watch.py::_record_progress", "if State(run.state) is State.CANCELLING:",
        "if False:",
        f"{_STOPPING}::test_it_waits_for_the_last_words_of_an_upstream_that_goes_on_for_a_while",
    ),
    Quirk(
        "api 4: cancel race, what was delivered is kept", "",
        f"{_AGENT}::_ended", "if _has_report(done.text) else None", "if False else None",
        f"{_AGENT_TESTS}::test_it_keeps_what_a_cancelled_job_had_delivered",
    ),
    Quirk(
        "api 4: cancel race, the upstream completes all the same", "cancel-ignored",
        "research/services/stopping.py::record_answer",
        'if answer == "stopping" and run.stop_reason == "user":', "if False:",
        f"{_RUNS}::test_it_stops_a_running_run_upstream_and_gives_everything_back",
    ),
    Quirk(
        "api 4: cancel race, the run was over before", "cancel-refused",
        "research/services/stopping.py::record_answer",
        ' or (isinstance(answer, Refused) and answer.fault is Fault.TERMINAL)', "",
        f"{_STOPPING}::test_it_looks_once_more_at_a_run_that_was_over_before_it_was_told_to_stop",
    ),
    Quirk(
        "api 4: 400 on cancel of an unknown id", "",
        f"{_REFUSALS}::_BY_CALL", '("cancel", 400): Fault.TERMINAL,', "", _BY_CALL,
    ),
    Quirk(
        "api 4: an unknown field is a 400", "",
        f"{_AGENT}::build_request", "for name, most in _LIMITS.items()",
        "for name, most in dict.fromkeys(order.parameters, 10**9).items()",
        f"{_AGENT_TESTS}::test_it_sends_only_parameters_that_the_strict_server_knows",
    ),
    Quirk(
        "api 4: anthropic models need max_output_tokens, so no model is named", "",
        f"{_AGENT}::build_request", 'ignored.append("model")', 'body["model"] = options.model',
        f"{_AGENT_TESTS}::test_it_says_which_options_it_cannot_express",
    ),
    Quirk(
        "api 4: a preset's prompt is replaced by instructions", "",
        f"{_AGENT}::_input", 'said.append(("system", order.options.instructions))', "pass",
        f"{_AGENT_TESTS}::test_it_adds_instructions_to_the_presets_own_prompt",
    ),
)  # fmt: skip

FAULTS = (
    Quirk(
        "api 5: 401", "bad-key pplx-bad",
        f"{_REFUSALS}::_BY_STATUS", "401: Fault.BAD_KEY", "401: Fault.OUTAGE", _TOLD_APART,
    ),
    Quirk(
        "api 5: 402", "no-credit pplx-broke",
        f"{_REFUSALS}::_BY_STATUS", "402: Fault.QUOTA", "402: Fault.OUTAGE", _TOLD_APART,
    ),
    Quirk(
        "api 5: 403, an organisation's key", "org-key pplx-org",
        f"{_REFUSALS}::_fault", "if status == 403 and _ORGANISATION.search(_words(parsed)):", "if False:",
        _TOLD_APART,
    ),
    Quirk(
        "api 5: 403, a blocked key and the edge's challenge", "blocked challenge pplx-blocked",
        f"{_REFUSALS}::_BY_STATUS", "403: Fault.FORBIDDEN", "403: Fault.OUTAGE", _TOLD_APART,
    ),
    Quirk(
        "api 5: 404 on a submission is a retired endpoint", "not-found",
        f"{_REFUSALS}::_BY_CALL", '("create", status): Fault.RETIRED', '("create", status): Fault.INVALID',
        _BY_CALL,
    ),
    Quirk(
        "api 5: 400, 413, 422, 424 are for good", "invalid too-large unprocessable connector",
        f"{_REFUSALS}::_fault", "Fault.INVALID if 400 <= status < 500 else Fault.OUTAGE", "Fault.OUTAGE",
        _BY_CALL,
    ),
    Quirk(
        "api 5: 429", "rate-limit pplx-busy",
        f"{_REFUSALS}::_BY_STATUS", "429: Fault.RATE_LIMITED", "429: Fault.INVALID", _TOLD_APART,
    ),
    Quirk(
        "api 5: 429 with Retry-After, as seconds", "retry-after",
        f"{_REFUSALS}::_retry_after", "if _SECONDS.fullmatch(value):", "if False:",
        "research/protocol/test_refusals.py::test_it_reads_retry_after_as_seconds_or_as_a_date",
    ),
    Quirk(
        "api 5: 429 with Retry-After, as a date", "retry-after=date",
        f"{_REFUSALS}::_retry_after", "moment = parsedate_to_datetime(value[:64])", "return None",
        "research/protocol/test_refusals.py::test_it_reads_retry_after_as_seconds_or_as_a_date",
    ),
    Quirk(
        "api 5: 429 waits on the same backend", "",
        f"{_RECOVERY}::NOTHING_WAS_SENT", "Fault.RATE_LIMITED, ", "", _FIRST,
    ),
    Quirk(
        "api 5: 500 and 502 with a page, which nobody is shown",
        "server-error bad-gateway bare-error unavailable",
        f"{_REFUSALS}::for_people", 'return "" if _TAG.search(words) else words', "return words",
        "research/protocol/test_refusals.py::test_it_never_shows_a_body",
    ),
    Quirk(
        "api 5: 504, the job may have been made", "gateway-timeout",
        f"{_REFUSALS}::_BY_CALL", '("create", 504): Fault.LOST,', "", _BY_CALL,
    ),
    Quirk(
        "api 5: truncated JSON, and what is no object", "truncated not-json not-object empty-body",
        f"{_JSON}::read_object", "return value if isinstance(value, dict) else None", "return value",
        "research/protocol/test_wire_json.py::test_it_reads_nothing_but_a_whole_object",
    ),
    Quirk(
        "api 5: truncated JSON is an open question", "",
        f"{_RECOVERY}::OPEN_QUESTION", "Fault.LOST, Fault.BROKEN", "Fault.LOST", _FIRST,
    ),
    Quirk(
        "api 5: slow headers", "slow poll-slow",
        "research/backends/base.py::call_seconds",
        "float(settings.RESEARCH_LEASE_SECONDS * SHARE_OF_LEASE)", "3600.0",
        "research/backends/test_base.py::test_it_gives_up_a_look_in_its_share_of_the_lease",
    ),
    Quirk(
        "api 5: dropped after the job was taken", "drop cut",
        f"{_RECOVERY}::after_refusal", "return AGAIN if takes_key and tries_left else FAIL", "return AGAIN",
        "research/protocol/test_recovery.py::"
        "test_it_never_sends_again_what_may_have_arrived_where_no_key_protects_it",
    ),
    Quirk(
        "api 5: the list in place of the job", "poll-list",
        f"{_SONAR}::parse_snapshot", ' or "requests" in job', "",
        f"{_SONAR_TESTS}::test_it_calls_an_answer_that_is_no_job_broken",
    ),
)  # fmt: skip

COSTS = (
    Quirk(
        "api 7: costs to the last digit", "cost",
        f"{_JSON}::read_object", "parse_float=Decimal", "parse_float=float",
        "research/protocol/test_wire_json.py::test_it_keeps_decimals_exact_and_drops_what_is_no_number",
    ),
    Quirk(
        "api 7: costs in dollars only", "",
        f"{_AGENT}::_usage", 'if cost.get("currency") in (None, "USD") else None', "",
        f"{_AGENT_TESTS}::test_it_reads_money_in_dollars_only",
    ),
)  # fmt: skip

QUIRKS = (*MODES, *CLOCK, *TEXTS, *AGENT, *FAULTS, *COSTS)

UNUSED = (
    Unused(
        "api 5: cut and idle streams of the Agent API and of Sonar",
        "no-resume event-lines no-done",
        "runs are polled in the background: no stream of these two is ever asked for",
    ),
    Unused(
        "api 6: x-request-id and x-ratelimit-*", "",
        "nothing is made of them: what a key may still ask is the upstream's affair until it says 429",
    ),
)  # fmt: skip
