"""Runs at every stage, made by hand: what the pages are shown."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.test import Client
from django.utils import timezone

from portal.models.users import User
from portal.services.principal import principal_of
from research.models.runs import Door, Run
from research.protocol.options import RunRequest
from research.protocol.outcome import Finished, Found, Usage
from research.protocol.states import State
from research.services import moves
from research.services.collect import collect
from research.services.money import end_run
from research.services.start import start_run
from tests.portal.people import somebody

TEXT = "# Tides\n\nThe moon pulls [1]. So does the sun [2].\n\n## Springs\n\nTwice a month [1][9].\n"
SOURCES = (
    Found("https://moon.example/tides", "The moon", "It pulls.", "2026-01-02", 1),
    Found("https://www.sun.example/a", "The sun", number=2),
    Found("https://www.sun.example/b/c", "", number=3),
)


def logged_in(user: User | None = None) -> Client:
    client = Client()
    client.force_login(user or somebody(), backend="django.contrib.auth.backends.ModelBackend")
    return client


def a_run(user: User, question: str = "Why are there tides?", **fields: Any) -> Run:
    """Queued, with its credits set aside."""
    return start_run(principal_of(user), RunRequest(question, **fields), Door.BROWSER).run


def running(user: User, question: str = "Why are there tides?", **progress: Any) -> Run:
    run = a_run(user, question)
    events = [moves.Event("submitting", {"backend": "agent"}), moves.Event("running", {"backend": "agent"})]
    if progress:
        events.append(moves.Event("progress", progress))
    Run.objects.filter(pk=run.pk).update(state=State.SUBMITTING, backend="agent")
    run.refresh_from_db()
    moves.move(run, State.RUNNING, events, submitted_at=timezone.now(), progress=progress)
    run.refresh_from_db()
    return run


def log(run: Run, *events: moves.Event) -> None:
    moves.move(run, State(run.state), list(events))


def finished(user: User, text: str = TEXT, found: tuple[Found, ...] = SOURCES, **more: Any) -> Run:
    run = running(user)
    usage = Usage(input_tokens=1200, output_tokens=345, cost=Decimal("0.0125"))
    collect(run, Finished(text, found=found, steps=7, usage=usage, model="a/model", **more))
    return stored(run)


def ended(user: User, state: State, **more: Any) -> Run:
    run = running(user)
    if state is State.CANCELLED:
        moves.move(run, State.CANCELLING)
        run.refresh_from_db()
    end_run(run, state, **more)
    return stored(run)


def stored(run: Run) -> Run:
    return Run.objects.select_related("report").get(pk=run.pk)


def older(run: Run, seconds: float) -> Run:
    """The same run, asked longer ago."""
    Run.objects.filter(pk=run.pk).update(created_at=run.created_at - timedelta(seconds=seconds))
    return stored(run)
