"""The text of a good day's answer: readable, on the question asked, and plainly simulated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sandbox.reports import plain_text
from sandbox.sources import Source
from sandbox.topics import Topic

COVER_SOURCES = 8
CHAT_SOURCES = 4

_OPENING = (
    "**This is a simulated answer.** It comes from the sandbox; nothing was searched and nobody was asked."
)
_LEADS = {
    "comparison": "A real answer would first say by which yardstick the two sides are to be compared [1].",
    "cause": "A real answer would keep what happened at the same time apart from what was shown to act [1].",
    "forecast": "A real answer would part what is under way from what is only hoped for [1].",
    "advice": "A real answer would ask for the circumstances first, since they decide [1].",
    "survey": "A real answer would begin with the few points on which the rest hangs [1].",
}
WALL = "Sign up for free to continue this conversation and get better answers."
REWRITTEN = "Something else entirely: this text was never sent piece by piece."


def _plainly(topic: Topic) -> str:
    return (
        f"{_OPENING}\n\n"
        f"You asked: *{plain_text(topic.question)}* {_LEADS[topic.kind]}\n\n"
        f"- **{topic.first}** comes first – “who counted, and when?” settles most of it [1][2].\n"
        f"- **{topic.second}** depends on the method; one careful study outweighs five quotations [3].\n"
        f"- **{topic.third}** is where good answers differ, so both sides belong here [2][4].\n\n"
        "Ask a connected model and its answer will stand in this place, with sources that lead somewhere. ✓"
    )


def _memory(earlier: Sequence[str], where: str) -> str:
    if not earlier:
        return ""
    more = f", after {len(earlier) - 1} more" if len(earlier) > 1 else ""
    return f"\n\nThis goes on from what you asked before{more} ({where}): “{plain_text(earlier[-1])}”"


def answer(topic: Topic, thread: Sequence[str], sent: Sequence[str], attachments: int) -> str:
    """Markdown with marks [1] to [4]. `thread` is what the server remembers of the thread, `sent` what the
    client sent along; both are questions without their markers."""
    text = _plainly(topic) + _memory(thread, "remembered") + _memory(sent, "sent along")
    if attachments:
        text += f"\n\nFiles that came with the question: {attachments}. Nothing has read them."
    return text


def recollection(thread: Sequence[str]) -> str:
    """What was asked before in a thread, as a list."""
    if not thread:
        return "Nothing was asked before in this thread."
    lines = [f"{number}. {question}" for number, question in enumerate(thread, 1)]
    return "Before this, you asked:\n\n" + "\n".join(lines)


def cover_note(topic: Topic) -> str:
    """What a deep-research answer says beside its report (§8)."""
    return (
        f"**A simulated report is ready.** It deals with {topic.first}, {topic.second} and {topic.third} "
        "[1][2]; no research was made for it. The report follows."
    )


def renumbered(text: str) -> str:
    """The same text with its citation marks counted from the other end."""
    for number in range(1, COVER_SOURCES + 1):
        text = text.replace(f"[{number}]", f"[#{COVER_SOURCES + 1 - number}]")
    return text.replace("[#", "[")


def pieces(text: str, number: int | None) -> tuple[str, ...]:
    """The text cut into so many pieces (usually of about forty characters), at blanks where it can."""
    if not text:
        return ()
    parts = max(1, min(number or max(8, min(60, len(text) // 40)), len(text)))
    cuts = [0]
    for place in range(1, parts):
        wanted = place * len(text) // parts
        blank = text.rfind(" ", cuts[-1] + 1, wanted + 1)
        cuts.append(max(blank if blank > 0 else wanted, cuts[-1] + 1))
    bounds = [*cuts, len(text)]
    return tuple(text[start:end] for start, end in pairwise(bounds) if start < end)


def web_result(source: Source) -> dict[str, object]:
    """One web result (§7)."""
    host = source.url.split("/")[2] if source.url.count("/") > 1 else ""
    return {
        "name": source.title or "",
        "url": source.url,
        "snippet": source.snippet or "",
        "timestamp": f"{source.date}T00:00:00" if source.date else None,
        "meta_data": {
            "client": "web",
            "citation_domain_name": host.removesuffix(".org").removesuffix(".com").removesuffix(".net"),
            "domain_name": host,
            "description": source.snippet or "",
            "date": source.date,
            "published_date": source.date,
            "images": [],
        },
        "is_attachment": False,
        "is_navigational": False,
        "is_focused_web": False,
        "is_memory": False,
        "is_conversation_history": False,
    }
