"""Which client sent a conversation, and what its system prompt may keep (proxy-contract §5).

Perplexity searches all text it is given: a prompt about assistants finds pages about assistants. So
the policy `filter` keeps only the lines of a whitelist, and LobeHub's prompt blocks are known by
their phrases and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

Client = Literal["generic", "lobehub"]

LONGEST_LINE = 150
_LOBEHUB_SCORE = 3
_PHRASES: tuple[tuple[int, tuple[str, ...]], ...] = (
    (3, ("you are lobe",)),
    (
        3,
        ("<available_skills>", "<user_memory>", "<available_tools>", "<tool.instructions>", "<skill name="),
    ),
    (2, ("activateskill", "activatetools", "runskill", "lobe-skill-store", "lobe-creds")),
)
_DEVELOPER_SCORE = 1
_HINTS = (
    "you are ",
    "you must ",
    "your role",
    "ccsearch",
    "加載",
    "技能",
    "available_skills",
    "<skill",
    "<user_memory",
    "<available_tools",
    "<tool_selection",
    "<credentials",
    "<best_practices",
    "<memory_effort",
    "<session_context",
)
_HINT_WITHIN = 200

DEFAULT_WHITELIST: tuple[str, ...] = (
    r"^[^<]*(?:traditional chinese|繁體|zh-tw|reply in|respond in|回覆|回答.*語言|same language)[^<]*$",
    r"^conversation language:",
    r"^[^<]*(?:禁止輸出|絕對禁止|不要輸出|do not output|never output)[^<]*$",
    r"^[^<]*(?:latex|katex|數學公式|math formula)[^<]*$",
)
"""What a new installation starts with; the table in the database decides. Case never matters."""

_SKILL = re.compile(r"<skill\b[^<>]{0,500}>(.*?)</skill\s{0,20}>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(/?)([a-z_][\w.:-]{0,64})\b[^<>]{0,500}>", re.IGNORECASE)


def detect(system_text: str, roles: Iterable[str]) -> Client:
    """By the phrases of the system text, and by the `developer` role that LobeHub uses."""
    text = system_text.lower()
    score = sum(points for points, phrases in _PHRASES if any(phrase in text for phrase in phrases))
    if "developer" in roles:
        score += _DEVELOPER_SCORE
    return "lobehub" if score >= _LOBEHUB_SCORE else "generic"


def is_prompt_block(text: str) -> bool:
    """Whether a user message is really LobeHub's prompt, by how it begins."""
    beginning = text[:_HINT_WITHIN].lower()
    return any(hint in beginning for hint in _HINTS)


def compile_whitelist(lines: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """One pattern a line; blank lines and `#` comments say nothing. Raises `re.error`."""
    kept = (line.strip() for line in lines)
    return tuple(re.compile(line, re.IGNORECASE) for line in kept if line and not line.startswith("#"))


def allowed_lines(system_text: str, whitelist: Sequence[re.Pattern[str]]) -> tuple[list[str], int]:
    """The lines of a system prompt that the whitelist keeps, and how many others there were."""
    kept: list[str] = []
    dropped = 0
    for raw in _without_wrappers(system_text).splitlines():
        line = raw.strip().lstrip("-* \t").rstrip()
        if not line:
            continue
        if len(line) <= LONGEST_LINE and any(pattern.search(line) for pattern in whitelist):
            kept.append(line)
        else:
            dropped += 1
    return kept, dropped


def _without_wrappers(text: str) -> str:
    """Without the tags that wrap something; a tag without a partner is part of the sentence."""
    text = _SKILL.sub(r"\1", text)
    names = [(found[1], found[2].lower()) for found in _TAG.finditer(text)]
    wrappers = {name for slash, name in names if not slash and ("/", name) in names}
    return _TAG.sub(lambda found: "" if found[2].lower() in wrappers else found[0], text)
