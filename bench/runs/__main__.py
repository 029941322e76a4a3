"""QUALITY §1 for research: S6, runs that are watched, and S7, runs that are submitted.

    .venv/bin/python -m bench.runs [--only S6,S7] [--rounds 3] [--seconds 10] [--runs 10000]

What is measured has the first core, all else the second. S6 is beside a Celery task for each look, S7 beside
a stock DRF view; both do the same work on the same database.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from bench.runs.field import STOCK, RunField
from bench.servers import OTHER_CORE, ROOT, TESTED_CORE, Target

EVERY = 5.0
"""Seconds between two looks at a run."""
PATIENCE = 120.0
SEED = """
import sys
from portal.models.keys import ApiKey
from portal.services.principal import Principal
from research.models.runs import Run
from research.protocol.options import RunRequest
from research.services.together import Asking, do_round
key = ApiKey.objects.get()
who = Principal(key.user_id, frozenset(), key_id=key.pk)
for place in range({runs} // 50):
    askings = [Asking(who, RunRequest("Why?", preset="high"), "rest") for _ in range(50)]
    assert all(do_round(askings)), place
"""
IN_FLIGHT = """
UPDATE research_run SET state = 'running', backend = 'agent', submitted_at = now(),
upstream_id = 'resp_' || replace(id::text, '-', ''), deadline_at = now() + interval '2 hours',
next_run_at = now() + random() * interval '5 s'
"""


def submit(target: Target, seconds: float) -> dict[str, Any]:
    command = ["taskset", "-c", OTHER_CORE, sys.executable, "-m", "bench.runs.submissions", target.url]
    command += ["--key-file", target.key_file, "--seconds", str(seconds)]
    before = target.cpu_seconds()
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    told["cpu_ms"] = 1000 * (target.cpu_seconds() - before) / max(told["requests"], 1)
    return told


def show_submissions(field: RunField, portal: Target, rounds: int, seconds: float) -> None:
    targets = [portal, field.stock()]
    found: dict[str, list[dict[str, Any]]] = {target.name: [] for target in targets}
    for target in targets:
        submit(target, 2.0)
    for _ in range(rounds):
        for target in targets:
            found[target.name].append(submit(target, seconds))
    print("S7  submissions, 16 at once, durable before the answer")
    medians = {name: middle(told) for name, told in found.items()}
    for name, told in medians.items():
        print(f"    {name:6} {json.dumps(told)}")
    ours, theirs = medians["sonde"], medians["drf"]
    print(f"    ratio  {ours['per_second'] / theirs['per_second']:.2f} by rate,", end=" ")
    print(f"{theirs['cpu_ms'] / ours['cpu_ms']:.2f} by CPU (goal 6)", flush=True)


def middle(rounds: list[dict[str, Any]]) -> dict[str, float]:
    def of(*path: str) -> float:
        values: list[Any] = list(rounds)
        for name in path:
            values = [value[name] for value in values]
        return float(round(statistics.median(values), 2))

    names = (("per_second",), ("cpu_ms",), ("whole_ms", "p50"), ("whole_ms", "p99"))
    return {".".join(path): of(*path) for path in names} | {
        "failures": sum(one["failures"] for one in rounds)
    }


def show_watching(field: RunField, runs: int, rounds: int, seconds: float) -> None:
    field.manage("shell", "-c", SEED.format(runs=runs))
    each = looks_by_task(field, min(runs, 1_000))
    field.query(IN_FLIGHT)
    up = [sys.executable, "manage.py", "up", "--role"]
    with (
        field.part("worker", TESTED_CORE, [*up, "worker"]) as worker,
        field.part("beat", OTHER_CORE, [*up, "beat"]) as beat,
    ):
        wait_for_all(field, runs)
        found = [watch(field, worker, beat, seconds) for _ in range(rounds)]
    print(f"S6  {runs:,} runs in flight, looked at every {EVERY:.0f} s by one worker")
    for told in found:
        print(f"    {json.dumps(told)}")
    told = {name: statistics.median(one[name] for one in found) for name in found[0]}
    print(f"    of a core {told['core']:.2f} (goal 0.5)")
    print(
        f"    a Celery task for each look: {each:.2f} ms, {each / told['cpu_ms']:.1f} times as much (goal 15)"
    )
    print(f"    looks a statement {told['looks_a_statement']:.0f} (goal 100)")
    print(f"    lateness p99 {told['late_p99'] / EVERY:.2f} of the interval (goal 0.2)", flush=True)


def wait_for_all(field: RunField, runs: int) -> None:
    """Until the worker has looked at every run, and some while longer."""
    field.ask_jobs("/begin", post=True)
    until = time.monotonic() + PATIENCE
    while (seen := field.ask_jobs("/seen")["jobs"]) < runs:
        if time.monotonic() > until:
            raise SystemExit(f"of {runs} runs {seen} were looked at:\n{field.log_of('worker')}")
        time.sleep(1.0)
    time.sleep(2 * EVERY)


def watch(field: RunField, worker: Target, beat: Target, seconds: float) -> dict[str, float]:
    """One stretch of time. Lateness is from one look to the next, less the interval: it holds the look and
    the recording too."""
    field.ask_jobs("/begin", post=True)
    began, cpu, beats = time.monotonic(), worker.cpu_seconds(), beat.cpu_seconds()
    statements = field.statements()
    time.sleep(seconds)
    seen, lasted = field.ask_jobs("/seen"), time.monotonic() - began
    used = worker.cpu_seconds() - cpu
    asked = field.statements() - statements
    looks = max(seen["looks"], 1)
    return {
        "looks_a_second": round(looks / lasted),
        "core": round(used / lasted, 3),
        "cpu_ms": round(1000 * used / looks, 3),
        "beat_core": round((beat.cpu_seconds() - beats) / lasted, 3),
        "looks_a_statement": round(looks / asked),
        "late_p50": round(seen["gaps"]["0.5"] - EVERY, 2),
        "late_p99": round(seen["gaps"]["0.99"] - EVERY, 2),
        "late_most": round(seen["gaps"]["1.0"] - EVERY, 2),
    }


def looks_by_task(field: RunField, looks: int) -> float:
    """Milliseconds of CPU that a worker takes for each look when a look is a task."""
    celery = [sys.executable, "-m", "celery", "-A", "bench.runs.stock_tasks", "worker"]
    command = [*celery, "-P", "threads", "-c", "16", "-l", "WARNING"]
    field.query(IN_FLIGHT)
    with field.part("tasks", TESTED_CORE, command, **STOCK) as worker:
        by_tasks(field, 50)
        before = worker.cpu_seconds()
        by_tasks(field, looks)
        return (worker.cpu_seconds() - before) * 1000.0 / looks


def by_tasks(field: RunField, looks: int) -> None:
    """Send so many tasks, and wait until they have looked."""
    field.ask_jobs("/begin", post=True)
    field.run(OTHER_CORE, [sys.executable, "-m", "bench.runs.stock_tasks", str(looks)], **STOCK)
    until = time.monotonic() + PATIENCE
    while (seen := field.ask_jobs("/seen")["looks"]) < looks:
        if time.monotonic() > until:
            raise SystemExit(f"of {looks} tasks {seen} have looked")
        time.sleep(0.2)


def main() -> int:
    options = parse()
    wanted = options.only.split(",") if options.only else ["S7", "S6"]
    for name in wanted:
        with RunField() as field:
            portal = field.portal()
            if name == "S7":
                show_submissions(field, portal, options.rounds, options.seconds)
            else:
                show_watching(field, options.runs, options.rounds, options.seconds)
            print("    " + field.manage("ledger_check").strip(), flush=True)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--only", default="", help="as in S6,S7")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
