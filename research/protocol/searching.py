"""Full-text search in words of our own, so that both databases find the same.

A text becomes a set of words: folded (case, accents, harakat and widths do not count), cut into what stands
between blanks and signs. Where a script puts no blanks between words, or nearly none, that is cut into pairs
of letters. Hebrew and Arabic words stand there without what is joined to their beginnings, too. A query
becomes words of the same kind; a text is found that has them all. No database ever sees a sign of a query:
there is no syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

LONGEST_WORD = 40
"""Letters of a word that count."""
MOST_WORDS = 30_000
"""Different words of a text that are kept."""
MOST_BYTES = 600_000
"""Of the different words together: PostgreSQL takes a megabyte."""
MOST_TERMS = 12
"""Words of a query that count."""
SHORTEST_PREFIX = 3
"""Letters from which on the last word of a query stands for all words that begin so: fewer begin too many."""
JOINED = 3
"""Letters of particles that Hebrew and Arabic join to the beginning of a word, at most."""
PIECE = 4_000
"""Characters of a text that are looked through at once for an excerpt."""
AROUND = 110
"""Characters on either side of a hit."""

# Letters with a stroke or in a ligature, which Unicode does not take apart.
_APART = str.maketrans({
    "ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i",
    "ـ": None,
})  # fmt: skip
# Han, kana, Hangul, Thai, Lao, Burmese and Khmer.
_PAIRED = (
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_JOINING = "\u0590-\u05ff\u0600-\u06ff\u0750-\u077f"
_WORD = re.compile(rf"[{_PAIRED}]+|[^\W_{_PAIRED}]+")
_IS_PAIRED = re.compile(rf"[{_PAIRED}]")
_IS_JOINING = re.compile(rf"[{_JOINING}]")
_SIGNS = re.compile(r"\]\([^)\s]*\)?|[*`#>~\[\]]+")
"""Of Markdown, which an excerpt has no use for."""
_GAPS = re.compile(r"[\s|]+")


@dataclass(frozen=True, slots=True)
class Query:
    """Words that a text must have, and the beginning of one more ("" for none)."""

    words: tuple[str, ...] = ()
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.words or self.prefix)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of an excerpt."""

    text: str
    is_hit: bool


@lru_cache(maxsize=4096)
def _fold_letter(letter: str) -> str:
    parts = unicodedata.normalize("NFKD", letter.casefold())
    kept = "".join(part for part in parts if unicodedata.category(part)[0] != "M")
    return unicodedata.normalize("NFC", kept).translate(_APART)


def folded(text: str) -> str:
    """The text with everything that looks alike being the same. Its length may change."""
    return text.lower() if text.isascii() else "".join(map(_fold_letter, text))


def words_of(text: str) -> list[str]:
    """The different words by which a text is found, in order of their first place, as far as they count."""
    found: dict[str, None] = {}
    size = 0
    for match in _WORD.finditer(folded(text)):
        for word in _forms(match[0]):
            if word not in found:
                found[word] = None
                size += len(word.encode())
        if len(found) >= MOST_WORDS or size >= MOST_BYTES:
            break
    return list(found)


def _forms(word: str) -> Iterator[str]:
    if _IS_PAIRED.match(word):
        yield from (word[place : place + 2] for place in range(len(word)))
        return
    word = word[:LONGEST_WORD]
    yield word
    if _IS_JOINING.match(word):
        yield from (word[joined:] for joined in range(1, JOINED + 1) if len(word) - joined > 1)


def query_of(text: str) -> Query:
    """What is looked for. Whatever signs the text has, they only part words."""
    words: dict[str, None] = {}
    prefix = ""
    for match in _WORD.finditer(folded(text)):
        if prefix:
            words[prefix] = None
        prefix = ""
        word = match[0][:LONGEST_WORD]
        if _IS_PAIRED.match(word) and len(word) > 1:
            words |= dict.fromkeys(word[place : place + 2] for place in range(len(word) - 1))
        elif len(word) >= SHORTEST_PREFIX or _IS_PAIRED.match(word):
            prefix = word
        else:
            words[word] = None
    kept = [word for word in words if word != prefix][:MOST_TERMS]
    return Query(tuple(kept), prefix)


def excerpt_of(texts: Iterable[str], query: Query) -> list[Part]:
    """The first place in these texts where a word of the query stands, with what is around it, else []."""
    pattern = _pattern(query)
    for text in texts:
        for start in range(0, len(text), PIECE):
            if hit := next(_hits(pattern, text[start : start + PIECE + LONGEST_WORD]), None):
                return _marked(_around(text, start + hit[0]), pattern)
    return []


def marked(text: str, query: Query) -> list[Part]:
    """The whole of a short text, its hits marked."""
    return _marked(text, _pattern(query))


def _pattern(query: Query) -> re.Pattern[str]:
    ends = [_beginning(query.prefix)] if query.prefix else []
    whole = [_beginning(word) + ("" if _IS_PAIRED.match(word) else r"(?![^\W_])") for word in query.words]
    return re.compile("|".join(whole + ends) or r"(?!)")


def _beginning(word: str) -> str:
    is_inside = _IS_PAIRED.match(word) or _IS_JOINING.match(word)
    return re.escape(word) if is_inside else rf"(?<![^\W_]){re.escape(word)}"


def _hits(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Where the hits begin and end, in the text as it is."""
    if text.isascii():
        yield from (match.span() for match in pattern.finditer(text.lower()))
        return
    letters = [_fold_letter(letter) for letter in text]
    places = [place for place, letter in enumerate(letters) for _ in letter]
    for match in pattern.finditer("".join(letters)):
        yield places[match.start()], places[match.end() - 1] + 1


def _around(text: str, place: int) -> str:
    """A line with what is at this place, cut between words where there are any near."""
    start, end = max(place - AROUND // 2, 0), place + AROUND * 2
    before, after = text[start:place], text[place:end]
    if start:
        before = "… " + before.partition(" ")[2]
    if end < len(text):
        after = (after.rpartition(" ")[0] or after) + " …"
    return _GAPS.sub(" ", _SIGNS.sub("", before + after)).strip()


def _marked(text: str, pattern: re.Pattern[str]) -> list[Part]:
    parts: list[Part] = []
    last = 0
    for start, end in _hits(pattern, text):
        if start < last:
            continue
        parts += [Part(text[last:start], is_hit=False)] if start > last else []
        parts.append(Part(text[start:end], is_hit=True))
        last = end
    return [*parts, Part(text[last:], is_hit=False)] if last < len(text) else parts
