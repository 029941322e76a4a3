"""The chat's pages: a new one, one that goes on, and what a page asks again and again."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.pages.base import page, principal
from portal.queries import admin_emails
from portal.services.ledger import balance_of
from portal.services.limits import admit_request
from portal.services.principal import Principal
from portal.templatetags.sonde import credits, number
from portal.wire.errors import BadRequest, Problem
from proxy.models.chats import ChatTurn, Conversation
from proxy.pages.shown import Choice, Shown, groups_of, shown_turn, shown_turns
from proxy.protocol.conversation import LONGEST_QUERY
from proxy.queries import find_conversation, last_turn, list_conversations, turns_of
from proxy.services import dialogue
from proxy.services.catalog import all_models
from proxy.services.dialogue import Wish

HISTORY = 30
"""Chats on a page of the history."""
JSON = "application/json"
EXAMPLES = (
    "What happened in the world today that an engineer should know?",
    "Explain eventual consistency with an example from daily life.",
    "Which open formats are there for exchanging calendars?",
    "Write a polite reminder for an invoice that is two weeks late.",
)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def new(request: HttpRequest) -> HttpResponseBase:
    return _answer_form(request, None) if request.method == "POST" else _show(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def conversation(request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
    found = find_conversation(principal(request), conversation_id)
    return _answer_form(request, found) if request.method == "POST" else _show(request, found)


@require_safe
@page
def live(request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
    """The last answer as it is, unless the page knows it so already (`after` is its mark)."""
    who = principal(request)
    found = find_conversation(who, conversation_id)
    turn = ChatTurn.objects.filter(conversation=found).order_by("-created_at", "-id").first()
    if turn is None:
        return JsonResponse({"mark": "", "live": False})
    shown = shown_turn(turn, all_models())
    if request.GET.get("after") == shown.mark:
        return JsonResponse({"mark": shown.mark, "live": shown.live})
    return JsonResponse(_told(request, who, found, shown))


@require_POST
@page
def stop(request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
    """Stopping what has just ended is no error for a person: they see how it ended."""
    dialogue.stop(principal(request), conversation_id)
    return redirect("conversation", conversation_id)


@require_POST
@page
def rename(request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
    try:
        dialogue.rename(principal(request), conversation_id, _field(request, "title"))
    except BadRequest as problem:
        messages.error(request, problem.message)
    return redirect("conversation", conversation_id)


@require_POST
@page
def delete(request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
    dialogue.hide(principal(request), conversation_id)
    messages.success(request, "The chat is deleted.")
    return redirect("chat")


def _answer_form(request: HttpRequest, found: Conversation | None) -> HttpResponseBase:
    """To a script as JSON, to a form as a page: what was asked, or why not, with all that was typed."""
    who = principal(request)
    is_script = request.headers.get("accept", "") == JSON
    wish = _wish(request)
    try:
        admit_request(who)
        turn = dialogue.ask(who, wish, found.pk if found else None)
    except Problem as problem:
        if problem.status == 404:
            raise
        return _refuse(problem) if is_script else _show(request, found, wish, problem)
    assert turn.conversation is not None
    if not is_script:
        return redirect("conversation", turn.conversation.pk)
    shown = shown_turn(turn, all_models())
    return JsonResponse(_told(request, who, turn.conversation, shown) | {"form": str(uuid4())})


def _refuse(problem: Problem) -> HttpResponse:
    wait = problem.headers.get("Retry-After")
    told = {"message": problem.message, "code": problem.code, "retry_after": int(wait) if wait else None}
    return JsonResponse(told, status=problem.status)


def _wish(request: HttpRequest) -> Wish:
    return Wish(
        _form_id(_field(request, "form")),
        _field(request, "message"),
        _field(request, "model") or settings.DEFAULT_MODEL,
        _field(request, "thinking") == "on",
    )


def _field(request: HttpRequest, name: str) -> str:
    """Without NUL, which no database takes."""
    return str(request.POST.get(name, "")).replace("\0", "")


def _form_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        return uuid4()


def _told(request: HttpRequest, who: Principal, found: Conversation, shown: Shown) -> dict[str, Any]:
    left = balance_of(who.user_id).available
    return {
        "url": reverse("conversation", args=[found.pk]),
        "mark": shown.mark,
        "live": shown.live,
        "turn": shown.id,
        "html": render_to_string("proxy/_turn.html", {"shown": shown}, request),
        "said": shown.awaited or ("The answer is here." if not shown.trouble else shown.trouble.title),
        "left": number(left),
        "left_words": credits(left),
    }


def _show(
    request: HttpRequest, found: Conversation | None, wish: Wish | None = None, problem: Problem | None = None
) -> HttpResponse:
    who = principal(request)
    turns = turns_of(found) if found else []
    latest = turns[-1] if turns else last_turn(who)
    model = wish.model if wish else (latest.model if latest else settings.DEFAULT_MODEL)
    groups = groups_of(model)
    choice = _chosen(groups_choices := [one for group in groups for one in group.choices])
    left = balance_of(who.user_id).available
    shown = shown_turns(turns, all_models())
    context = {
        "conversation": found,
        "turns": shown,
        "last": shown[-1] if shown else None,
        "is_live": bool(shown and shown[-1].live),
        "history": _history(request, who),
        "groups": groups,
        "chosen": choice,
        "cheaper": any(one.price <= left for one in groups_choices),
        "thinking": wish.thinking if wish else bool(latest and latest.thinking),
        "message": wish.text if wish else request.GET.get("q", ""),
        "form_id": wish.turn_id if wish else uuid4(),
        "problem": problem,
        "left": left,
        "short": choice is not None and left < choice.price,
        "unready": dialogue.readiness(),
        "admins": admin_emails(),
        "examples": EXAMPLES,
        "longest": LONGEST_QUERY,
    }
    return render(request, "proxy/chat.html", context, status=problem.status if problem else 200)


def _chosen(choices: list[Choice]) -> Choice | None:
    return next((one for one in choices if one.chosen), choices[0] if choices else None)


def _history(request: HttpRequest, who: Principal) -> dict[str, Any]:
    text = request.GET.get("before", "")
    before: UUID | None = _uuid(text)
    found = list_conversations(who, HISTORY, before)
    return {"page": found, "before": before, "last": found.conversations[-1] if found.has_more else None}


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
