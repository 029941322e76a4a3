"""The one table of markers: what a question can ask the sandbox to do, and the reading of a question.

Grammar: `[sandbox:NAME]`, `[sandbox:NAME=VALUE]`, and either with an API before the name,
`[sandbox:agent.NAME]` or `[sandbox:sonar.NAME]`, to bind it to that API alone. A question may hold several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Literal

from sandbox.faults import FAULTS

Api = Literal["agent", "sonar"]
Phase = Literal["submit", "late", "poll", "cancel"]

MARKER = re.compile(r"\[sandbox:(?:(agent|sonar)\.)?([a-z0-9-]+)(?:=([^\]\s]*))?\]")
PREFIXES: Mapping[Phase, str] = {"submit": "", "late": "late-", "poll": "poll-", "cancel": "cancel-"}
_WHEN: Mapping[Phase, str] = {
    "submit": "On submission, before anything is accepted",
    "late": "On submission, after the run was accepted",
    "poll": "On each fetch of the run",
    "cancel": "On each cancel of the run, which then has no effect",
}


class UnreadableMarker(ValueError):
    """A marker that the table does not hold, or a value that it does not take."""


@dataclass(frozen=True, slots=True)
class Marker:
    """One behaviour. `value` checks the text after `=`; `default` is used without one (None: required)."""

    meaning: str
    value: Callable[[str], bool] | None = None
    default: str | None = ""
    apis: tuple[Api, ...] = ("agent", "sonar")


def _count(text: str) -> bool:
    return text == "" or (text.isascii() and text.isdigit())


def _seconds(text: str) -> bool:
    try:
        return 0 <= Decimal(text) <= 1_000_000
    except InvalidOperation:
        return False


def _money(text: str) -> bool:
    return re.fullmatch(r"\d{1,9}(\.\d{1,30})?", text, re.ASCII) is not None


def _word(text: str) -> bool:
    return re.fullmatch(r"\w{1,40}", text) is not None


def _wait(text: str) -> bool:
    return text == "date" or _seconds(text)


_BEHAVIOURS: Mapping[str, Marker] = {
    # The clock of a run.
    "duration": Marker("The run takes this many seconds.", _seconds, None),
    "stuck": Marker("The run stays in progress for ever."),
    "stuck-queued": Marker("The run stays queued (CREATED) for ever."),
    "expire": Marker("The run is forgotten (404) this many seconds after its submission.", _seconds, None),
    "slow": Marker("Submission is accepted, its headers come this many seconds late.", _seconds, None),
    "poll-slow": Marker("The headers of each fetch come this many seconds late.", _seconds, None),
    "cancel-slow": Marker("The headers of each cancel come this many seconds late.", _seconds, None),
    "retry-after": Marker(
        "Rate-limit answers carry Retry-After: seconds, or the word `date` for a date.", _wait, None
    ),
    # How a run ends.
    "failed": Marker("The run fails and says why."),
    "failed-silent": Marker("The run fails with neither a message nor an error object."),
    "incomplete": Marker("The run ends incomplete (Sonar: finish_reason length) with half of its text."),
    "incomplete-empty": Marker(
        "The run ends incomplete with nothing: all tokens went into reasoning (§5.6)."
    ),
    "upstream-cancelled": Marker("The run ends cancelled though nobody cancelled it.", apis=("agent",)),
    "unknown-status": Marker(
        "While it works the run shows this status word, `polishing` by default.", _word, "polishing"
    ),
    # Cancelling.
    "cancel-lag": Marker(
        "After an accepted cancel this many fetches still say in_progress (2 by default, §5.6).",
        _count,
        None,
        ("agent",),
    ),
    "cancel-ignored": Marker("Cancel is accepted, and the run completes all the same.", apis=("agent",)),
    "cancel-refused": Marker("Cancel is refused as if the run were terminal.", apis=("agent",)),
    # The numbers.
    "cost": Marker("The run costs this many US dollars, digit for digit.", _money, None),
    "no-cost": Marker("Usage comes without cost (Agent API) or with zero cost."),
    "no-usage": Marker("A finished run has no usage at all."),
    # The text.
    "think": Marker("The text opens with a closed <think> block (§4.1)."),
    "think-two": Marker("Two <think> blocks, one of them in the middle."),
    "think-unclosed": Marker("A <think> block that never closes."),
    "content-null": Marker("Sonar: message.content is null. Agent: the message has no content parts."),
    "content-parts": Marker("The text comes as a list of parts, the Agent's over two messages."),
    "empty": Marker("The report is an empty string."),
    "text-early": Marker(
        "While the run works, and when it was cancelled, it shows the text it has so far (§5.6: partial output).",
        apis=("agent",),
    ),
    "odd-items": Marker(
        "Output items of kinds that no client knows come before the others.", apis=("agent",)
    ),
    "huge": Marker("The report has this many KiB, 200 by default.", _count, "200"),
    "right-to-left": Marker("The report is written in Arabic."),
    "hostile": Marker("The report carries script, event handlers, javascript: links and tracking images."),
    # Sources and marks.
    "no-sources": Marker("No sources and no marks, though searches were counted (§3.4)."),
    "no-sources-links": Marker("No sources, but bare URLs in the text (§3.4)."),
    "citations-only": Marker("Sonar: citations without search_results.", apis=("sonar",)),
    "sources-bare": Marker("Sources without date and snippet, every second title empty, the others missing."),
    "no-snippet": Marker(
        "Sources without the member `snippet`, which breaks the SDK's typing (§7.5).", apis=("agent",)
    ),
    "hostile-sources": Marker("Sources whose URLs are javascript:, data:, file:, loopback and credentials."),
    "marks-range": Marker("Marks that point nowhere: [0] and [14] of 8."),
    "marks-groups": Marker("Marks in groups: [1,2], [1-3], [4][5]."),
    "marks-code": Marker("Marks inside code, code blocks and links, where they are no marks."),
    "marks-web": Marker("Marks of the form [web:3]."),
    "marks-links": Marker("Markdown links in place of marks."),
    "urls-odd": Marker(
        "URLs with brackets, trailing punctuation, IDN, escapes, and duplicates after normalising."
    ),
    # Streams.
    "cut-stream": Marker("The stream's connection closes after this many events.", _count, None),
    "idle-stream": Marker("The stream falls silent after this many events and stays open.", _count, None),
    "error-stream": Marker("After this many events comes a bare `error` event, and the end.", _count, None),
    "no-resume": Marker("Resuming the stream is refused with 400: the window has passed.", apis=("agent",)),
    "event-lines": Marker("The stream has `event:` lines, comments and a final [DONE].", apis=("agent",)),
    "no-done": Marker("A synchronous stream ends without [DONE].", apis=("sonar",)),
    "poll-list": Marker(
        "Each fetch answers the list, as a gateway that loses the id does (§3.5).", apis=("sonar",)
    ),
}


def _fault_markers() -> dict[str, Marker]:
    found: dict[str, Marker] = {}
    for phase, prefix in PREFIXES.items():
        for name, fault in FAULTS.items():
            limit = "every time, or the first N times when given =N"
            apis: tuple[Api, ...] = ("sonar",) if fault.legacy_only else ("agent", "sonar")
            if phase == "cancel":
                apis = ("agent",)
            found[prefix + name] = Marker(f"{_WHEN[phase]}: {fault.meaning}; {limit}.", _count, "", apis)
    return found


MARKERS: Mapping[str, Marker] = {**_fault_markers(), **_BEHAVIOURS}


@dataclass(frozen=True, slots=True)
class Script:
    """What one question asks of one API: marker name → value, an empty string where none was given."""

    markers: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.markers

    def number(self, name: str, otherwise: float) -> float:
        """A numeric value, or `otherwise` where the marker does not stand."""
        return float(self.markers[name]) if name in self.markers else otherwise

    def fault(self, phase: Phase, attempt: int) -> str | None:
        """The fault that meets the given attempt (counted from 1) at a phase, if any."""
        prefix = PREFIXES[phase]
        for marker, value in self.markers.items():
            name = marker.removeprefix(prefix)
            if name in FAULTS and prefix + name == marker and (value == "" or attempt <= int(value)):
                return name
        return None


@lru_cache(maxsize=1024)
def read_script(question: str, api: Api) -> Script:
    """The script of a question for one API; raises UnreadableMarker with a sentence for a person."""
    found: dict[str, str] = {}
    for only, name, given in MARKER.findall(question):
        marker = MARKERS.get(name)
        if marker is None:
            raise UnreadableMarker(f"the sandbox knows no marker named {name!r}")
        value = given or marker.default
        if value is None or (value and (marker.value is None or not marker.value(value))):
            raise UnreadableMarker(f"the sandbox marker {name!r} does not take the value {given!r}")
        if api == only or (not only and api in marker.apis):
            found[name] = value
    return Script(found)


def plain_question(question: str) -> str:
    """The question without its markers, on one line."""
    return " ".join(MARKER.sub(" ", question).split())
