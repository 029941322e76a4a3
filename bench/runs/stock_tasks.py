"""S6's baseline: a Celery task for each look, as one writes it: lease the row, ask, write it back.

DJANGO_SETTINGS_MODULE=bench.runs.stock celery -A bench.runs.stock_tasks worker -P threads -c 16
DJANGO_SETTINGS_MODULE=bench.runs.stock python -m bench.runs.stock_tasks LOOKS    sends so many
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import django
import httpx
from celery import Celery

django.setup()

from django.conf import settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from research.models.runs import Run  # noqa: E402
from research.protocol.outcome import Running  # noqa: E402
from research.protocol.wire_agent import parse_snapshot  # noqa: E402

app = Celery("stock", broker=settings.REDIS_URL, task_ignore_result=True, worker_hijack_root_logger=False)
client = httpx.Client(base_url=settings.PERPLEXITY_BASE_URL, trust_env=False)


@app.task(name="stock.poll")
def poll(run_id: str) -> None:
    token, now = uuid4(), timezone.now()
    due = Run.objects.filter(pk=run_id, lease_token=None, completed_at=None)
    if not due.update(lease_token=token, lease_until=now + timedelta(seconds=60)):
        return
    run = Run.objects.get(pk=run_id)
    headers = {"Authorization": f"Bearer {settings.PERPLEXITY_API_KEY}"}
    answer = client.get(f"/v1/agent/{run.upstream_id}", headers=headers)
    snapshot = parse_snapshot(answer.status_code, answer.headers, answer.content, datetime.now(UTC))
    assert isinstance(snapshot, Running)
    Run.objects.filter(pk=run_id, lease_token=token).update(
        lease_token=None, lease_until=None, next_run_at=timezone.now() + timedelta(seconds=5)
    )


def send(looks: int) -> None:
    for run_id in Run.objects.filter(completed_at=None).values_list("pk", flat=True)[:looks]:
        poll.delay(str(run_id))


if __name__ == "__main__":
    send(int(sys.argv[1]))
