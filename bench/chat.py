"""QUALITY §1 for chat: Sonde beside a bare relay, nginx, LiteLLM and the upstream itself, in turns.

    .venv/bin/python -m bench.chat [--rounds 3] [--seconds 5] [--only S1,S3] [--nginx PATH] [--litellm PATH]

Each figure is the median of the rounds. `cpu` is milliseconds of CPU a request of the server under test,
the steadiest figure on a machine that others share. At the end the portals' books are looked at: exits
with 1 when they are not right, or when anybody failed to answer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.servers import OTHER_CORE, ROOT, Field, Target, allow_open_files


@dataclass(frozen=True, slots=True)
class Case:
    """One figure of QUALITY §1 and the load that shows it."""

    name: str
    told: str
    arguments: tuple[str, ...]
    impersonates: bool = False
    holds: int = 0
    """Streams that are open at once, of each of which the memory is told; 0 where that is no matter."""

    def warmed(self) -> Case:
        """What is asked before anything is measured: enough to have all loaded that answers need."""
        return WARM if self.holds else self


HELD = 2_000
STREAMED = ("--stream", "--marker")
WARM = Case("", "", ("--clients", "64", "--stream"))
CASES = (
    Case("S1", "plain chat, 16 at once", ("--clients", "16")),
    Case("S2", "plain chat, 64 at once", ("--clients", "64"), impersonates=True),
    Case(
        "S3",
        "stream, first byte at 50 ms",
        ("--clients", "4", *STREAMED, "chunks=8;first=50;gap=0"),
    ),
    Case("S4", "burst of 400 pieces", ("--clients", "8", *STREAMED, "chunks=400;first=0;gap=0")),
    Case(
        "S5",
        "2,000 streams held, 5 pieces a second",
        (*("--clients", str(HELD), "--once", "--ramp", "20"), *STREAMED, "chunks=200;first=200;gap=200"),
        holds=HELD,
    ),
)


def measure(target: Target, case: Case, seconds: float) -> dict[str, Any]:
    command = ["taskset", "-c", OTHER_CORE, sys.executable, "-m", "bench.load", target.url, *case.arguments]
    command += ["--seconds", str(seconds), "--model", target.model]
    command += ["--key-file", target.key_file] if target.key_file else []
    target.forget_peak()
    before = target.cpu_seconds()
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    used = target.cpu_seconds() - before
    told["cpu_ms"] = 1000 * used / max(told["requests"], 1)
    told["cpu_us_a_chunk"] = 1e6 * used / max(told["chunks"], 1)
    told["peak_kib"] = target.peak_kib()
    return told


def median(rounds: list[dict[str, Any]]) -> dict[str, float]:
    def of(*path: str) -> float:
        values = []
        for told in rounds:
            value: Any = told
            for name in path:
                value = value[name]
            values.append(float(value))
        return round(statistics.median(values), 3)

    return {
        "per_second": of("per_second"),
        "cpu_ms": of("cpu_ms"),
        "cpu_us_a_chunk": of("cpu_us_a_chunk"),
        "first_p50": of("first_ms", "p50"),
        "whole_p50": of("whole_ms", "p50"),
        "whole_p99": of("whole_ms", "p99"),
        "late_p99": of("late_ms", "p99"),
        "peak_kib": of("peak_kib"),
        "failures": sum(told["failures"] for told in rounds),
    }


class Rounds:
    """Interleaved rounds over the servers of a field, and what came of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.answered: Counter[str] = Counter()
        """Answers that were read to their end, by target."""
        self.is_good = True

    def run(self, case: Case, targets: Sequence[Target]) -> None:
        found: dict[str, list[dict[str, Any]]] = {target.name: [] for target in targets}
        for target in targets:
            self._ask(target, case.warmed(), min(self.options.seconds, 1.0))
        at_rest = {target.name: target.memory_kib() for target in targets}
        for _ in range(self.options.rounds):
            for target in targets:
                found[target.name].append(self._ask(target, case, self.options.seconds))
        print(f"{case.name}  {case.told}")
        for name, rounds in found.items():
            self._show(case, name, rounds, at_rest[name])

    def _ask(self, target: Target, case: Case, seconds: float) -> dict[str, Any]:
        told = measure(target, case, seconds)
        self.answered[target.name] += told["requests"]
        return told

    def _show(self, case: Case, name: str, rounds: list[dict[str, Any]], at_rest: int) -> None:
        shown = median(rounds)
        if case.holds:
            shown["kib_a_stream"] = round((shown["peak_kib"] - at_rest) / case.holds, 1)
        print(f"    {name:13} {json.dumps(shown)}", flush=True)
        if shown["failures"]:
            self.fault(next(told["a_failure"] for told in rounds if told["a_failure"]))

    def fault(self, what: str) -> None:
        self.is_good = False
        print(f"    {'':13} {what}")


def main() -> int:
    options = parse()
    wanted = [case for case in CASES if not options.only or case.name in options.only.split(",")]
    rounds = Rounds(options)
    if any(case.holds for case in wanted):
        allow_open_files()
    with Field() as field:
        targets = [field.direct(), field.relay(), field.sonde()]
        if options.nginx:
            targets.append(field.nginx(options.nginx))
        if options.litellm:
            targets.append(field.litellm(options.litellm))
        browsers = [field.impersonating()] if any(case.impersonates for case in wanted) else []
        for case in wanted:
            rounds.run(case, [*targets, *browsers] if case.impersonates else targets)
        for name in field.portals:
            for fault in field.faults(name, rounds.answered[name]):
                rounds.fault(f"{name}: {fault}")
    return int(not rounds.is_good)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.chat")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", default="", help="as in S1,S3")
    parser.add_argument("--nginx", type=Path, help="the program nginx")
    parser.add_argument(
        "--litellm", type=Path, help="the program litellm of an environment with litellm[proxy]"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
