"""Reading a question: a short name for it, its main terms, its kind, and a slug for addresses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

_STOPWORDS = frozenset(
    re.findall(
        r"\S+",
        """
    a about above across actually after again against all almost along already also although always am
    among an and any are around as ask at away back be became because become been before being below
    best better between both but by can cannot compare compared comparison could currently describe did
    difference differences do does doing done down during each either else enough especially etc even
    ever every explain far few find first for found from further get give given go good had happen
    happens has have having he her here him his how however i if in instead into is it its itself just
    keep keeps kind know large last least less let like likely list long look made main make makes many
    matter matters may me might mine more most move much must my near need needed never new next no nor
    not now of off often on once one only onto or other others our out over own people per perhaps
    please possible put rather really recent report research said same say see seem several shall she
    should show simple since small so some start still such summarise summarize take tell than that the
    their them then there these they thing things think this those three through to today together too
    toward two under until up upon us use used uses using versus very vs wait want was way we well were
    what when where whether which while who whom whose why will with within without work works worth
    would write year years yes yet you your

    als au auf aux avec bei che come comment cuál cuáles dans das de del dem den der des di die du ein
    eine einer el en es est et für il im ist la las le les los mit nicht o oder para perché por pour
    pourquoi que quel quelles quels qué sind son sono sont sur un una und vom von warum welche welcher
    werden wie wird y zu
    """,
    )
)
_WORD = re.compile(r"[^\W_]+(?:[-'’.+#/][^\W_]+)*[+#]{0,2}")
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
        re.compile(r"^\W*(should|how (do i|can|should|to))\b|\b(best|recommend\w*|choose|which)\b", re.I),
    ),
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A question as the report speaks of it.

    `question` is whole, `short` at most 90 characters; `terms` holds three to six phrases, from its own words
    as far as they reach; `kind` is comparison, cause, forecast, advice or survey.
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


def _runs(question: str) -> Iterator[list[str]]:
    """Words that carry meaning, as far as neither a stopword nor punctuation parts them."""
    run: list[str] = []
    end = 0
    for match in _WORD.finditer(question):
        word = match.group()
        parted = question[end : match.start()].strip() != ""
        empty = word.lower() in _STOPWORDS or word.isdigit() or (len(word) < 2 and word.isascii())
        if parted or empty:
            yield run
            run = []
        if not empty:
            run.append(word)
        end = match.end()
    yield run


def _terms(question: str) -> tuple[str, ...]:
    """Three to six phrases of up to three words, in order, each once."""
    found: dict[str, str] = {}
    for run in _runs(question):
        phrase = _clip(" ".join(run[:3]), 40)
        if phrase:
            found.setdefault(phrase.lower(), phrase)
    terms = list(found.values())[:6]
    base = terms[0] if terms else "the subject"
    more = ([] if terms else [base]) + [f"{base} in practice", f"the limits of {base}"]
    return tuple(terms + more[: max(0, 3 - len(terms))])


def _kind(question: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.search(question)), "survey")


def _slug(question: str, term: str) -> str:
    words = re.findall(r"[a-z0-9]+", term.lower())
    return "-".join(words[:4]) or hashlib.sha256(question.encode()).hexdigest()[:10]


def read_topic(question: str) -> Topic:
    """Reads a question without markers; an empty one is named as such."""
    question = question or "A question without words"
    terms = _terms(question)
    return Topic(
        question=question,
        short=_clip(question.rstrip(" ?.!"), 90),
        terms=terms,
        kind=_kind(question),
        slug=_slug(question, terms[0]),
    )
