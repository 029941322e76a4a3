"""The one table of markers: what a question can ask the sandbox to do, and the reading of a question.

Grammar: `[sandbox:NAME]`, `[sandbox:NAME=VALUE]`, and either with an API before the name,
`[sandbox:agent.NAME]`, `[sandbox:sonar.NAME]` or `[sandbox:web.NAME]`, to bind it to that API alone. A
question may hold several. The behaviours of the web alone stand in `sandbox.web.markers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sandbox.faults import FAULTS
from sandbox.markers import ALL, BOTH, WEB, Api, Marker, Phase, count, money, seconds, wait, word
from sandbox.web.faults import WEB_FAULTS
from sandbox.web.markers import WEB_BEHAVIOURS

MARKER = re.compile(r"\[sandbox:(?:(agent|sonar|web)\.)?([a-z0-9-]+)(?:=([^\]\s]*))?\]")
PREFIXES: Mapping[Phase, str] = {"submit": "", "late": "late-", "poll": "poll-", "cancel": "cancel-"}
_WHEN: Mapping[Phase, str] = {
    "submit": "On submission, before anything is accepted",
    "late": "On submission, after the run was accepted",
    "poll": "On each fetch of the run (web: each reconnect)",
    "cancel": "On each cancel of the run (web: each terminate), which then has no effect",
}


class UnreadableMarker(ValueError):
    """A marker that the table does not hold, or a value that it does not take."""


_BEHAVIOURS: Mapping[str, Marker] = {
    # The clock of a run.
    "duration": Marker("The run takes this many seconds.", seconds, None, apis=ALL),
    "stuck": Marker("The run stays in progress for ever.", apis=ALL),
    "stuck-queued": Marker("The run stays queued (CREATED) for ever."),
    "expire": Marker(
        "The run is forgotten (404) this many seconds after its submission.", seconds, None, apis=ALL
    ),
    "slow": Marker(
        "Submission is accepted, its headers come this many seconds late.", seconds, None, apis=ALL
    ),
    "poll-slow": Marker("The headers of each fetch come this many seconds late.", seconds, None, apis=ALL),
    "cancel-slow": Marker("The headers of each cancel come this many seconds late.", seconds, None, apis=ALL),
    "retry-after": Marker(
        "Rate-limit answers carry Retry-After: seconds, or the word `date` for a date.", wait, None, apis=ALL
    ),
    # How a run ends.
    "failed": Marker("The run fails and says why.", apis=ALL),
    "failed-silent": Marker("The run fails with neither a message nor an error object.", apis=ALL),
    "incomplete": Marker("The run ends incomplete (Sonar: finish_reason length) with half of its text."),
    "incomplete-empty": Marker(
        "The run ends incomplete with nothing: all tokens went into reasoning (§5.6)."
    ),
    "upstream-cancelled": Marker("The run ends cancelled though nobody cancelled it.", apis=("agent",)),
    "unknown-status": Marker(
        "While it works the run shows this status word, `polishing` by default.", word, "polishing"
    ),
    # Cancelling.
    "cancel-lag": Marker(
        "After an accepted cancel this many fetches still say in_progress (2 by default, §5.6).",
        count,
        None,
        ("agent",),
    ),
    "cancel-ignored": Marker(
        "Cancel is accepted, and the run completes all the same.", apis=("agent", "web")
    ),
    "cancel-refused": Marker("Cancel is refused as if the run were terminal.", apis=("agent", "web")),
    # The numbers.
    "cost": Marker("The run costs this many US dollars, digit for digit.", money, None),
    "no-cost": Marker("Usage comes without cost (Agent API) or with zero cost."),
    "no-usage": Marker("A finished run has no usage at all."),
    # The text.
    "think": Marker("The text opens with a closed <think> block (§4.1).", apis=ALL),
    "think-two": Marker("Two <think> blocks, one of them in the middle.", apis=ALL),
    "think-unclosed": Marker("A <think> block that never closes.", apis=ALL),
    "content-null": Marker("Sonar: message.content is null. Agent: the message has no content parts."),
    "content-parts": Marker("The text comes as a list of parts, the Agent's over two messages."),
    "empty": Marker("The report is an empty string.", apis=ALL),
    "text-early": Marker(
        "While the run works, and when it was cancelled, it shows the text so far (§5.6: partial output).",
        apis=("agent",),
    ),
    "odd-items": Marker(
        "Output items of kinds that no client knows come before the others.", apis=("agent",)
    ),
    "huge": Marker("The report has this many KiB, 200 by default.", count, "200", apis=ALL),
    "right-to-left": Marker("The report is written in Arabic.", apis=ALL),
    "hostile": Marker(
        "The report carries script, event handlers, javascript: links and tracking images.", apis=ALL
    ),
    # Sources and marks.
    "no-sources": Marker("No sources and no marks, though searches were counted (§3.4).", apis=ALL),
    "no-sources-links": Marker("No sources, but bare URLs in the text (§3.4).", apis=ALL),
    "citations-only": Marker("Sonar: citations without search_results.", apis=("sonar",)),
    "sources-bare": Marker(
        "Sources without date and snippet, every second title empty, the others missing.", apis=ALL
    ),
    "no-snippet": Marker(
        "Sources without the member `snippet`, which breaks the SDK's typing (§7.5).", apis=("agent",)
    ),
    "hostile-sources": Marker(
        "Sources whose URLs are javascript:, data:, file:, loopback and credentials.", apis=ALL
    ),
    "marks-range": Marker("Marks that point nowhere: [0] and [14] of 8.", apis=ALL),
    "marks-groups": Marker("Marks in groups: [1,2], [1-3], [4][5].", apis=ALL),
    "marks-code": Marker("Marks inside code, code blocks and links, where they are no marks.", apis=ALL),
    "marks-web": Marker("Marks of the form [web:3].", apis=ALL),
    "marks-links": Marker("Markdown links in place of marks.", apis=ALL),
    "urls-odd": Marker(
        "URLs with brackets, trailing punctuation, IDN, escapes, and duplicates after normalising.", apis=ALL
    ),
    # Streams.
    "cut-stream": Marker("The stream's connection closes after this many events.", count, None, apis=ALL),
    "idle-stream": Marker(
        "The stream falls silent after this many events and stays open.", count, None, apis=ALL
    ),
    "error-stream": Marker(
        "After this many events comes a bare `error` event, and the end.", count, None, apis=ALL
    ),
    "no-resume": Marker(
        "Resuming the stream is refused with 400: the window has passed.", apis=("agent", "web")
    ),
    "event-lines": Marker("The stream has `event:` lines, comments and a final [DONE].", apis=("agent",)),
    "no-done": Marker("A synchronous stream ends without [DONE].", apis=("sonar",)),
    "poll-list": Marker(
        "Each fetch answers the list, as a gateway that loses the id does (§3.5).", apis=("sonar",)
    ),
}


def _struck(name: str, phase: Phase) -> tuple[Api, ...]:
    """The APIs that a fault strikes when its marker names none."""
    paid: tuple[Api, ...] = ()
    if name in FAULTS:
        paid = ("sonar",) if FAULTS[name].legacy_only else BOTH
        paid = ("agent",) if phase == "cancel" else paid
    return (*paid, *(WEB if name in WEB_FAULTS else ()))


def _fault_markers() -> dict[str, Marker]:
    found: dict[str, Marker] = {}
    for phase, prefix in PREFIXES.items():
        for name, fault in {**WEB_FAULTS, **FAULTS}.items():
            limit = "every time, or the first N times when given =N"
            sentence = f"{_WHEN[phase]}: {fault.meaning}; {limit}."
            found[prefix + name] = Marker(sentence, count, "", _struck(name, phase))
    return found


MARKERS: Mapping[str, Marker] = {**_fault_markers(), **_BEHAVIOURS, **WEB_BEHAVIOURS}


def _is_fault(name: str) -> bool:
    return name in FAULTS or name in WEB_FAULTS


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
            if _is_fault(name) and prefix + name == marker and (value == "" or attempt <= int(value)):
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
        if only and not marker.binds(only):
            raise UnreadableMarker(f"the sandbox marker {name!r} does not concern {only}")
        value = given or marker.default
        if value is None or (value and (marker.value is None or not marker.value(value))):
            raise UnreadableMarker(f"the sandbox marker {name!r} does not take the value {given!r}")
        if api == only or (not only and api in marker.apis):
            found[name] = value
    return Script(found)


def plain_question(question: str) -> str:
    """The question without its markers, on one line."""
    return " ".join(MARKER.sub(" ", question).split())
