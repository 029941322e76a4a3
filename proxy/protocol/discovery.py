"""Which models still answer, and what their successors are called (proxy-contract §14).

No network here: a `Round` says what to ask next and is told how that went. Where the upstream's own
catalogue (perplexity-web §13) could be read, it answers instead of queries, which cost quota; and a
probe that fails makes its own model unavailable, not the round.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from proxy.protocol.delta import Done, Fault, FaultKind
from proxy.protocol.model_table import Model, may_use
from proxy.protocol.session import Tier
from proxy.protocol.tolerant import object_of, objects_of, text_of
from proxy.protocol.web_frame import read_json

PROBE_QUESTION = "In about one hundred words: how do tides come about, and why are there two a day?"
PAUSE_SECONDS = 2
MOST_CANDIDATES = 10

ProbeResult = Literal["alive", "substituted", "dead", "failed"]

_PINNED = re.compile(r"[0-9]\.[0-9]|-[0-9]+\Z")
_TWO_DIGITS = re.compile(r"(gpt|claude|grok|gemini)([0-9]{2})(?![0-9])(.*)")
_THREE_DIGITS = re.compile(r"(grok)([0-9])([0-9]{2})([a-z]+)")
_NEMOTRON = re.compile(r"(nv_nemotron_)([0-9])(_.+)")
_TAILS: Mapping[str, re.Pattern[str]] = {
    "gpt": re.compile(r"(?:_[a-z]+)*"),
    "claude": re.compile(r"[a-z]+"),
    "grok": re.compile(r"low|medium|high"),
    "gemini": re.compile(r"pro[a-z_]*"),
}


def candidates(preference: str) -> tuple[str, ...]:
    """The next versions of a preference, nearest first: at most ten, and at most 1.0 further."""
    if found := _THREE_DIGITS.fullmatch(preference):
        first = int(found[3]) + 1
        minors = range(first, min(first + MOST_CANDIDATES, 100))
        return tuple(f"{found[1]}{found[2]}{minor:02}{found[4]}" for minor in minors)
    if found := _NEMOTRON.fullmatch(preference):
        major = int(found[2]) + 1
        return (f"{found[1]}{major}{found[3]}",) if major < 10 else ()
    found = _TWO_DIGITS.fullmatch(preference)
    if found is None or not _TAILS[found[1]].fullmatch(found[3]):
        return ()
    first = int(found[2]) + 1
    return tuple(
        f"{found[1]}{version}{found[3]}" for version in range(first, min(first + MOST_CANDIDATES, 100))
    )


def is_pinned(model_id: str) -> bool:
    """An id that names its version (`sonnet-4.6`, `grok-4`) never becomes another one."""
    return _PINNED.search(model_id) is not None


def upgraded(model: Model, preference: str) -> Model:
    """`model` on its new preference; the thinking id follows, by suffix or by its version."""
    if model.thinking.startswith(model.preference):
        thinking = preference + model.thinking.removeprefix(model.preference)
    else:
        before, after = (re.search("[0-9]+", text) for text in (model.preference, preference))
        thinking = model.thinking.replace(before[0], after[0], 1) if before and after else model.thinking
    return replace(model, preference=preference, thinking=thinking)


def probe_result(outcome: Done | Fault) -> ProbeResult:
    """What a probe's answer says. An empty answer is a dead model, not a failed round (§17.33)."""
    if isinstance(outcome, Fault):
        return "dead" if outcome.kind in (FaultKind.REJECTED, FaultKind.EMPTY) else "failed"
    return "substituted" if outcome.model is None or outcome.model.substituted else "alive"


@dataclass(frozen=True, slots=True)
class UpstreamCatalogue:
    """The preferences that the upstream itself lists, with their labels."""

    labels: Mapping[str, str]

    def has(self, preference: str) -> bool:
        return preference in self.labels


def read_catalogue(body: str | bytes) -> UpstreamCatalogue | None:
    """`GET /rest/models/config`; None when it lists nothing we can read."""
    value = object_of(read_json(body))
    labels = {
        name: text_of(object_of(entry).get("label")) for name, entry in object_of(value.get("models")).items()
    }
    for entry in objects_of(value.get("config")):
        for name in ("non_reasoning_model", "reasoning_model"):
            if preference := text_of(entry.get(name)):
                labels.setdefault(preference, text_of(entry.get("label")))
    return UpstreamCatalogue(labels) if labels else None


@dataclass(frozen=True, slots=True)
class Trouble:
    model: str
    preference: str
    reason: str


@dataclass(slots=True)
class Report:
    """What a round found; `body` is the answer of `POST /admin/discover-models`."""

    alive: list[str] = field(default_factory=list)
    upgraded: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Id → (old preference, new preference)."""
    added: list[Model] = field(default_factory=list)
    unavailable: list[Trouble] = field(default_factory=list)
    dead: list[Trouble] = field(default_factory=list)
    probed: int = 0

    def body(self) -> dict[str, object]:
        details: dict[str, object] = {
            "alive": self.alive,
            "upgraded": {name: {"old": old, "new": new} for name, (old, new) in self.upgraded.items()},
            "added": {model.id: {"pref": model.preference, "label": model.label} for model in self.added},
            "unavailable": [_trouble(one) for one in self.unavailable],
            "dead": [_trouble(one) for one in self.dead],
            "probed": self.probed,
        }
        counts = {
            "alive": len(self.alive),
            "upgraded": len(self.upgraded),
            "added": len(self.added),
            "dead": len(self.dead),
            "unavailable": len(self.unavailable),
            "probed": self.probed,
        }
        return {"status": "ok", **counts, "details": details}


def _trouble(trouble: Trouble) -> dict[str, str]:
    return {"model": trouble.model, "pref": trouble.preference, "reason": trouble.reason}


@dataclass(slots=True)
class _Check:
    """One model to look at. `left`: the successors that were not tried yet."""

    model: Model
    missing: bool = False
    left: deque[str] = field(default_factory=deque)
    trying: str = ""

    @property
    def preference(self) -> str:
        return self.trying or self.model.preference


class Round:
    """One round of discovery: `next_probe` until it is None, each followed by one `tell`."""

    def __init__(
        self,
        models: Iterable[Model],
        missing: Iterable[Model],
        tier: Tier,
        *,
        manual: bool = False,
        catalogue: UpstreamCatalogue | None = None,
    ) -> None:
        """`models`: the stored map. `missing`: catalogue models that it does not have."""
        self.report = Report()
        self._catalogue = catalogue
        fresh = [_Check(model, missing=True) for model in missing if model.enabled and may_use(model, tier)]
        known = [
            _Check(model)
            for model in models
            if model.enabled and may_use(model, tier) and (manual or candidates(model.preference))
        ]
        self._waiting = deque(fresh + known)

    def next_probe(self) -> str | None:
        """The preference to ask next; what the catalogue knows is settled on the way."""
        while self._waiting:
            check = self._waiting[0]
            if self._catalogue is None:
                return check.preference
            self._settle(
                check, "alive" if self._catalogue.has(check.preference) else "dead", "not in the catalogue"
            )
        return None

    def tell(self, result: ProbeResult, reason: str = "") -> None:
        """How the last probe went; `reason` is for people."""
        self.report.probed += 1
        self._settle(self._waiting[0], result, reason or result)

    def skip(self, reason: str) -> None:
        """The last probe was not made."""
        self._settle(self._waiting[0], "failed", reason)

    def _settle(self, check: _Check, result: ProbeResult, reason: str) -> None:
        trouble = Trouble(check.model.id, check.preference, reason)
        if result == "substituted" and check.trying:
            result = "dead"  # not the successor we look for
        if result == "dead" and self._tries_next(check):
            return
        self._waiting.popleft()
        if result == "alive" and check.missing:
            self.report.added.append(check.model)
        elif result == "alive" and check.trying:
            self.report.upgraded[check.model.id] = (check.model.preference, check.trying)
        elif result == "alive":
            self.report.alive.append(check.model.id)
        elif result == "dead":
            self.report.dead.append(Trouble(check.model.id, check.model.preference, reason))
        else:
            self.report.unavailable.append(trouble)

    def _tries_next(self, check: _Check) -> bool:
        """Whether a dead model has a successor to look at; new and pinned ones have none."""
        if check.missing or is_pinned(check.model.id):
            return False
        if not check.trying:
            check.left.extend(candidates(check.model.preference))
        if not check.left:
            return False
        check.trying = check.left.popleft()
        return True
