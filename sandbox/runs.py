"""The scripted clock: what state a job is in, as a pure function of its row, its script and the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sandbox.scenarios import Script, read_script
from sandbox.store import Job

State = Literal["queued", "in_progress", "completed", "failed", "incomplete", "cancelled"]

QUEUED_SHARE = 0.08
STUCK_SHARE = 0.66
_CANCEL_LAG = 2
_SONAR_KEEPS = 7 * 86400.0
_ENDS: tuple[tuple[str, State], ...] = (
    ("failed", "failed"),
    ("failed-silent", "failed"),
    ("incomplete", "incomplete"),
    ("incomplete-empty", "incomplete"),
    ("upstream-cancelled", "cancelled"),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A job at one instant. `share` is how much is done, 0 to 1; `started` and `ended` are unix seconds."""

    job: Job
    script: Script
    state: State
    share: float
    started: float | None
    ended: float | None

    @property
    def terminal(self) -> bool:
        return self.state not in ("queued", "in_progress")

    @property
    def odd_word(self) -> str | None:
        """The status word that the script shows in place of in_progress."""
        return self.script.markers.get("unknown-status") if self.state == "in_progress" else None


def outcome(script: Script) -> State:
    """How a run ends when nobody cancels it."""
    return next((state for marker, state in _ENDS if marker in script), "completed")


def _share(job: Job, script: Script, now: float) -> float:
    share = (now - job.created) / job.seconds if job.seconds > 0 else 1.0
    if "stuck-queued" in script:
        return 0.0
    return max(0.0, min(share, STUCK_SHARE if "stuck" in script else 1.0))


def cancelled(job: Job, script: Script) -> bool:
    """Whether a cancel was accepted that will have its way."""
    return job.cancelled_at is not None and "cancel-ignored" not in script


def look(job: Job, now: float) -> Moment:
    """The job as a fetch at `now` sees it. The fetches counted in its row decide when a cancel shows."""
    script = read_script(job.question, job.api)
    started = job.created + QUEUED_SHARE * job.seconds
    if cancelled(job, script):
        at = job.cancelled_at or now
        late = job.polls - (job.cancelled_poll or 0) <= script.number("cancel-lag", _CANCEL_LAG)
        state: State = "in_progress" if late else "cancelled"
        return Moment(job, script, state, min(_share(job, script, at), 0.99), started, None if late else at)
    share = _share(job, script, now)
    if share >= 1:
        return Moment(job, script, outcome(script), 1.0, started, job.created + job.seconds)
    if share < QUEUED_SHARE:
        return Moment(job, script, "queued", share, None, None)
    return Moment(job, script, "in_progress", share, started, None)


def expired(job: Job, now: float) -> bool:
    """Whether the upstream has forgotten the job: the legacy API keeps one for seven days (§3.3)."""
    kept = _SONAR_KEEPS if job.api == "sonar" else float("inf")
    return now >= job.created + read_script(job.question, job.api).number("expire", kept)
