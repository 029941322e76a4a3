"""Users with a key each, calling the doors; and runs at their ends without an upstream."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from django.utils import timezone

from portal.doors import doors
from portal.models.keys import ApiKey
from portal.models.users import User
from portal.services import keys, users
from research.models.reports import Report
from research.models.runs import Run
from tests.api_client import Client


@dataclass(frozen=True, slots=True)
class Caller:
    user: User
    key: ApiKey
    client: Client

    def start(self, question: str = "Why is the sky blue?", **fields: Any) -> str:
        """The id of a new run."""
        response = self.client.post("/v1/agent", json={"input": question, **fields})
        assert response.status_code == 200, response.text
        return str(response.json()["id"])


def caller(credits: int = 10, **of_key: Any) -> Caller:
    user = users.create_user(f"{uuid4().hex[:12]}@example.org", credits=Decimal(credits))
    key, text = keys.create_key(user, name="test", **of_key)
    return Caller(user, key, Client(doors, text))


def run_of(public_id: str) -> Run:
    return Run.objects.get(pk=public_id.removeprefix("resp_"))


def end(public_id: str, state: str = "completed", *, text: str = "It scatters [1].", **changes: Any) -> Run:
    """Write a run's end into its row, with a report where there is one to deliver."""
    run = run_of(public_id)
    ended_at = run.created_at + timedelta(seconds=5)
    Run.objects.filter(pk=run.pk).update(
        state=state,
        completed_at=ended_at,
        next_run_at=None,
        backend="agent",
        submitted_at=timezone.now(),
        **changes,
    )
    if state in ("completed", "incomplete"):
        source = {
            "number": 1,
            "url": "https://a.org",
            "title": "A",
            "provenance": "cited",
            "snippet": "",
            "date": None,
        }
        Report.objects.create(
            run=run,
            text=text,
            html="",
            sources=[source],
            queries=["why blue"],
            usage={"input_tokens": 3, "output_tokens": 4},
            steps=2,
            upstream_cost=Decimal("0.0123"),
            model="m",
        )
    return run_of(public_id)
