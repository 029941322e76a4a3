"""The list of runs, and a run: live, and after its end."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from portal.pages.base import page, principal
from portal.queries import team_of
from portal.services.principal import Principal
from portal.wire.errors import BadRequest
from portal.wire.ids import parse_response_id
from proxy.services.deep_attachments import names_attached
from research.models.runs import Run
from research.pages.events import lines_of
from research.pages.shown import LONG_QUESTION, cost_of, gauge_of, report_of, tab_title
from research.queries import events_after, find_readable_run, list_runs, preset_titles, readable_runs
from research.services.cancel import cancel_run

PAGE = 50


@require_safe
@page
def show_list(request: HttpRequest) -> HttpResponseBase:
    found = list_runs(principal(request), PAGE, place_after(request))
    context = {"page": found, "after": request.GET.get("after"), "titles": preset_titles()}
    return render(request, "research/runs.html", context)


@require_safe
@page
def show_run(request: HttpRequest, public_id: str) -> HttpResponseBase:
    who = principal(request)
    run = find_readable_run(who, parse_response_id(public_id))
    context = _of_run(who, run)
    if run.user_id == who.user_id:
        context["own_team"] = team_of(who.user_id)
    else:
        context["place"] = "team"  # under "Runs" are one's own
    return render(request, "research/run.html", context)


@require_safe
@page
def show_changes(request: HttpRequest, public_id: str) -> HttpResponseBase:
    """What a page that knows the events up to `after` has to change: HTML by place, as JSON."""
    run = find_readable_run(principal(request), parse_response_id(public_id))
    return JsonResponse(_changes(request, run, _after(request)))


@require_POST
@page
def stop(request: HttpRequest, public_id: str) -> HttpResponseBase:
    """Stopping what has just ended is no error for a person: they see how it ended."""
    run_id = parse_response_id(public_id)
    try:
        cancel_run(principal(request), run_id)
    except BadRequest:
        messages.info(request, "The run had already ended.")
    return redirect("run", public_id)


def place_after(request: HttpRequest) -> UUID | None:
    """The run behind which a page of a list begins. Raises Http404 for what is no id."""
    after = request.GET.get("after")
    run_id = parse_response_id(after) if after else None
    if after and run_id is None:
        raise Http404
    return run_id


def _after(request: HttpRequest) -> int:
    text = request.GET.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _of_run(who: Principal, run: Run, after: int = 0) -> dict[str, Any]:
    """Everything the templates of a run are made of; `owner` is None on the owner's own page."""
    lines = lines_of(events_after(run, after))
    return {
        "run": run,
        "owner": run.user if run.user_id != who.user_id else None,
        "previous": readable_runs(who).filter(pk=run.previous_id).first() if run.previous_id else None,
        "lines": lines,
        "seq": lines[-1].seq if lines else after,
        "gauge": None if run.is_terminal else gauge_of(run, timezone.now()),
        "shown": report_of(run) if run.is_terminal else None,
        "tab_title": tab_title(run),
        "titles": preset_titles(),
        "cost": cost_of(run),
        "took": (run.completed_at - run.created_at).total_seconds() if run.completed_at else None,
        "is_long": len(run.question) > LONG_QUESTION,
        "attached": names_attached(run.upstream_key) if run.options.get("attachments") else [],
    }


def _changes(request: HttpRequest, run: Run, after: int) -> dict[str, Any]:
    """A live run gets its gauge and new events; an ended one its whole body, once."""
    context = _of_run(principal(request), run, 0 if run.is_terminal else after)
    told = {
        "seq": context["seq"],
        "status": run.status,
        "live": not run.is_terminal,
        "title": f"{context['tab_title']} · Sonde",
    }

    def part(template: str) -> str:
        return render_to_string(template, context, request)

    if run.is_terminal:
        return told | {"head": part("research/_run_meta.html"), "body": part("research/_run_body.html")}
    return told | {
        "head": part("research/_run_meta.html"),
        "gauge": part("research/_gauge.html"),
        "events": part("research/_events.html"),
        "said": context["gauge"].summary,
    }
