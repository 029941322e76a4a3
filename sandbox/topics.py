"""Reading a question: a short name for it, its main terms, its kind, and a slug for addresses."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_STOPWORDS = frozenset(
    [
        "a",
        "about",
        "above",
        "across",
        "actually",
        "after",
        "again",
        "against",
        "all",
        "almost",
        "along",
        "already",
        "also",
        "although",
        "always",
        "am",
        "among",
        "an",
        "and",
        "any",
        "are",
        "around",
        "as",
        "ask",
        "at",
        "away",
        "back",
        "be",
        "became",
        "because",
        "become",
        "been",
        "before",
        "being",
        "below",
        "best",
        "better",
        "between",
        "both",
        "but",
        "by",
        "can",
        "cannot",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "done",
        "down",
        "during",
        "each",
        "either",
        "else",
        "enough",
        "especially",
        "etc",
        "even",
        "ever",
        "every",
        "explain",
        "far",
        "few",
        "find",
        "first",
        "for",
        "found",
        "from",
        "further",
        "get",
        "give",
        "given",
        "go",
        "good",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "him",
        "his",
        "how",
        "however",
        "i",
        "if",
        "in",
        "instead",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "keep",
        "kind",
        "know",
        "large",
        "last",
        "least",
        "less",
        "let",
        "like",
        "likely",
        "list",
        "long",
        "look",
        "made",
        "main",
        "make",
        "makes",
        "many",
        "may",
        "me",
        "might",
        "mine",
        "more",
        "most",
        "much",
        "must",
        "my",
        "near",
        "need",
        "needed",
        "never",
        "new",
        "next",
        "no",
        "nor",
        "not",
        "now",
        "of",
        "off",
        "often",
        "on",
        "once",
        "one",
        "only",
        "onto",
        "or",
        "other",
        "others",
        "our",
        "out",
        "over",
        "own",
        "per",
        "perhaps",
        "please",
        "possible",
        "put",
        "rather",
        "really",
        "recent",
        "report",
        "research",
        "said",
        "same",
        "say",
        "see",
        "seem",
        "several",
        "shall",
        "she",
        "should",
        "show",
        "simple",
        "since",
        "small",
        "so",
        "some",
        "still",
        "such",
        "summarise",
        "summarize",
        "take",
        "tell",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "thing",
        "things",
        "think",
        "this",
        "those",
        "three",
        "through",
        "to",
        "today",
        "together",
        "too",
        "toward",
        "two",
        "under",
        "until",
        "up",
        "upon",
        "us",
        "use",
        "used",
        "uses",
        "using",
        "very",
        "want",
        "was",
        "way",
        "we",
        "well",
        "were",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "within",
        "without",
        "work",
        "works",
        "worth",
        "would",
        "write",
        "year",
        "years",
        "yes",
        "yet",
        "you",
        "your",
        "compare",
        "compared",
        "comparison",
        "describe",
        "versus",
        "vs",
        "currently",
        "people",
    ]
)
_WORD = re.compile(r"[^\W_]+(?:[-'’.+#/][^\W_]+)*[+#]{0,2}")
_FALLBACK = ("the subject itself", "its context", "the quality of the evidence")


@dataclass(frozen=True, slots=True)
class Topic:
    """A question as the report speaks of it.

    `question` is whole, `short` at most 90 characters; `terms` holds three to six phrases from its own words.
    """

    question: str
    short: str
    terms: tuple[str, ...]
    kind: str
    slug: str

    @property
    def first(self) -> str:
        return self.terms[0]

    @property
    def second(self) -> str:
        return self.terms[1]

    @property
    def third(self) -> str:
        return self.terms[2]


def _clip(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    cut = text[:limit].rsplit(" ", 1)[0]
    return cut.rstrip(" ,;:.-") + "…"


def _phrases(question: str) -> list[str]:
    """Runs of up to three words that carry meaning, in order, each once."""
    found: list[str] = []
    run: list[str] = []
    end = 0

    def close() -> None:
        phrase = _clip(" ".join(run[:3]), 40)
        if phrase and phrase.lower() not in (other.lower() for other in found):
            found.append(phrase)
        run.clear()

    for match in _WORD.finditer(question):
        word = match.group()
        broken = question[end : match.start()].strip() != ""
        end = match.end()
        if broken:
            close()
        if word.lower() in _STOPWORDS or (len(word) < 2 and word.isascii()):
            close()
        else:
            run.append(word)
    close()
    return found


_KINDS = (
    (
        "comparison",
        re.compile(
            r"\b(compare[ds]?|comparison|versus|vs|better|differences?|trade-?offs?)\b|\bor\b.*\?", re.I
        ),
    ),
    ("cause", re.compile(r"^\W*why\b|\b(causes?|reasons?|drives?|explain)\b", re.I)),
    (
        "forecast",
        re.compile(r"\b(will|future|forecast|outlook|trends?|by 20\d\d|next (year|decade))\b", re.I),
    ),
    (
        "advice",
        re.compile(r"^\W*(should|how (do|can|should|to))\b|\b(best|recommend\w*|choose|which)\b", re.I),
    ),
)


def _kind(question: str) -> str:
    for kind, pattern in _KINDS:
        if pattern.search(question):
            return kind
    return "survey"


def _slug(question: str, terms: tuple[str, ...]) -> str:
    words = re.findall(r"[a-z0-9]+", terms[0].lower())
    return "-".join(words[:4]) or hashlib.sha256(question.encode()).hexdigest()[:10]


def read_topic(question: str) -> Topic:
    """Reads a question without markers; an empty one is named as such."""
    question = question or "a question without words"
    phrases = _phrases(question)[:6]
    terms = tuple(phrases + list(_FALLBACK[: max(0, 3 - len(phrases))]))
    return Topic(
        question=question,
        short=_clip(question.rstrip(" ?.!"), 90),
        terms=terms,
        kind=_kind(question),
        slug=_slug(question, terms),
    )
