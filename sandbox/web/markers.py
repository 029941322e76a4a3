"""What a question can ask of the web backend alone; `sandbox.scenarios` adds these to the one table.

Section signs mean perplexity-web.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from sandbox.markers import WEB, Check, Marker, count, one_of, seconds

SHAPES = ("chunks", "patches", "workflow", "text")
BRIDGES = (
    "call", "two", "message", "prose", "fenced", "wrong", "unknown", "duplicate", "extra", "empty", "nan",
)  # fmt: skip
FORGOTTEN = ("new", "failed", "400", "403", "404", "422")
PROCESSING = ("works", "blocked", "failed", "tokens", "silent", "foreign", "cut", "waits")
UPLOADS = ("error", "limited", "missing", "rejected", "refused")


def _name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", text) is not None


def _positive(text: str) -> bool:
    return count(text) and 0 < int(text or 1) <= 100_000


def spoken(text: str) -> str:
    """The text behind base64url, with or without padding. Errors: ValueError."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as unreadable:
        raise ValueError("not base64url of UTF-8") from unreadable


def _spoken(text: str) -> bool:
    try:
        return bool(spoken(text))
    except ValueError:
        return False


def _web(meaning: str, value: Check | None = None, default: str | None = "") -> Marker:
    return Marker(meaning, value, default, WEB)


WEB_BEHAVIOURS: Mapping[str, Marker] = {
    # Shape and framing (§5, §7, §8).
    "shape": _web(
        f"The answer comes in this shape whatever was asked for: {', '.join(SHAPES)}.", one_of(*SHAPES), None
    ),
    "text-form": _web(
        "The `text` member has an older form: string (FINAL holds plain text), object, or plain.",
        one_of("string", "object", "plain"),
        None,
    ),
    "last-text": _web("The last frame carries `text` though nobody asked for it (§6)."),
    "mirror": _web("The answer comes on two tracks at once, ask_text and ask_text_0_markdown."),
    "mirror-only": _web("The answer comes on ask_text_0_markdown alone."),
    "track-switch": _web("The answer begins on ask_text_0_markdown and goes on, whole again, on ask_text."),
    "pieces": _web("The text comes in this many pieces.", _positive, None),
    "resend-chunks": _web("Every frame repeats the piece before it, with the offset to match (§7)."),
    "framing": _web(
        "lf: line feeds alone. odd: mixed line ends, no blanks, several data lines, unknown names.",
        one_of("lf", "odd"),
        None,
    ),
    "heartbeat": _web(
        "A comment comes after this many silent seconds; 15 without the marker.", seconds, None
    ),
    "dribble": _web("The body is written in pieces of this many bytes, 7 by default.", _positive, "7"),
    "split-utf8": _web("Every record that holds one is cut inside a character, with a pause."),
    "terminal-kib": _web("The last frame weighs at least this many KiB, 1024 by default.", _positive, "1024"),
    "endless-line": _web("After the first frame comes a line that never ends, up to 64 MiB."),
    # Time.
    "first-frame": _web("The headers come at once, the first frame this many seconds late.", seconds, None),
    "clarify": _web(
        "Research asks questions back and waits this many seconds for nobody, 60 by default.", seconds, "60"
    ),
    # What is said.
    "say": _web("The answer is this text, given in base64url.", _spoken, None),
    "recall": _web("The answer lists what was asked before in this thread, as the server remembers it."),
    "bridge": _web(
        f"What a model makes of functions offered in the prompt: {', '.join(BRIDGES)}.",
        one_of(*BRIDGES),
        None,
    ),
    "thinking": _web("Goals and search steps, as a thinking model shows them."),
    "legacy-sources": _web("Frames carry the old top-level `web_results` and `plan`."),
    "report-in": _web(
        "Where deep research puts its report: text, assets, both or none.",
        one_of("text", "assets", "both", "none"),
        None,
    ),
    # Which model (§9).
    "substitute": _web("Another model answers, gpt5_nano by default.", _name, "gpt5_nano"),
    "switch": _web("Another model takes over half way, gpt5_nano by default.", _name, "gpt5_nano"),
    "aux-tail": _web("An auxiliary model adds the last few characters."),
    "no-model": _web("No frame names the model."),
    "no-token": _web("No frame carries a read_write_token."),
    # Refusals and lies inside a 200 (§10.4, §12).
    "upsell": _web(
        "The quota is refused in a stream that completes; the value is the name of the upsell.",
        _name,
        "advanced_models_quota_low",
    ),
    "authwall": _web(
        "The sign-in wall: a sentence that asks to sign up, in a stream that completes.",
        _name,
        "fraud_authwall_upsell",
    ),
    "error-frame": _web("A frame with a truthy `error`, and the end."),
    "error-code": _web("A frame with this error_code and a text, and the end.", _name, "RATE_LIMIT_EXCEEDED"),
    "broken-json": _web("The data of the frame with this number is not JSON; 3 by default.", count, "3"),
    "array-frame": _web("The frame with this number is a JSON list; 3 by default.", count, "3"),
    "end-stream": _web("The body ends properly after this many events.", count, None),
    "no-end": _web("The body ends properly, but without end_of_stream."),
    "no-completed": _web("end_of_stream comes although no frame said COMPLETED."),
    "rewrite": _web("The final snapshot contradicts the pieces."),
    "renumber": _web("The final snapshot numbers the citations anew (§7)."),
    "retract": _web("The last frame takes the text back."),
    "stopped": _web("Half way it ends as a stopped run does: COMPLETED, with text_completed false."),
    "forget": _web(
        "The thread that a follow-up names is unknown; answered with new (a new thread), failed, or a "
        "status, 400 by default.",
        one_of(*FORGOTTEN),
        "400",
    ),
    # In the name of an uploaded file (§14).
    "processing": _web(
        f"How reading this document goes: {', '.join(PROCESSING)}.", one_of(*PROCESSING), None
    ),
    "upload": _web(f"How storing this file goes wrong: {', '.join(UPLOADS)}.", one_of(*UPLOADS), None),
}
