"""The question form: what a person typed, as the request that every other door makes of it."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from portal.wire.errors import Problem
from portal.wire.fields import Fields
from research.models.runs import Run
from research.protocol.agent import parse_run_request
from research.protocol.options import RunRequest

_SPLIT = re.compile(r"[\s,;]+")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_LABELS = {
    "input": "question",
    "search_mode": "mode",
    "search_recency_filter": "recency",
    "search_domain_filter": "domains",
    "search_after_date_filter": "after",
    "search_before_date_filter": "before",
    "language_preference": "language",
    "previous_response_id": "previous",
}
"""Field of the API → field of the form, where the names differ."""


OPTIONS = ("instructions", "mode", "recency", "domains", "after", "before", "language")
"""Fields that are folded away until one of them is used."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The form as it was filled in; every field is the text as typed. `form` tells one showing of
    the form from another."""

    question: str = ""
    preset: str = ""
    instructions: str = ""
    mode: str = ""
    recency: str = ""
    domains: str = ""
    after: str = ""
    before: str = ""
    language: str = ""
    previous: str = ""
    form: str = ""

    @property
    def has_options(self) -> bool:
        options = asdict(self)
        return any(options[name] for name in OPTIONS)


FILES = "files"
"""The field of what is attached; a page cannot fill it in again."""
FIELDS = frozenset(asdict(Asking())) - {"previous", "form"} | {FILES}
"""Fields that a person sees; `previous` stands above them all."""


def new_asking(question: str = "", previous: str = "") -> Asking:
    return Asking(question=question, previous=previous, form=secrets.token_urlsafe(12))


def asking_of(run: Run) -> Asking:
    """The form filled in as it was for `run`, to be asked again."""
    options = run.options
    return Asking(
        question=run.question,
        preset=run.preset,
        instructions=options.get("instructions") or "",
        mode=options.get("search_mode") or "",
        recency=options.get("recency") or "",
        domains=", ".join(options.get("domains") or ()),
        after=_iso(options.get("after_date") or ""),
        before=_iso(options.get("before_date") or ""),
        language=options.get("language") or "",
        form=new_asking().form,
    )


def read_asking(form: Mapping[str, str]) -> Asking:
    return Asking(**{name: form.get(name, "") for name in asdict(Asking())})


def request_of(asking: Asking) -> RunRequest:
    """Raises BadRequest in the API's words, which `errors_of` puts into the form's.

    The idempotency key is made of the form's own name and all that was typed: sending the same
    form twice is one run, sending it again with another question is another.
    """
    request = parse_run_request(Fields(_body(asking)), {})
    typed = json.dumps(asdict(asking)).encode()
    return replace(request, idempotency_key=f"form-{hashlib.sha256(typed).hexdigest()}")


def _body(asking: Asking) -> dict[str, Any]:
    given = {
        "input": asking.question.strip(),
        "preset": asking.preset,
        "instructions": asking.instructions.strip(),
        "search_mode": asking.mode,
        "search_recency_filter": asking.recency,
        "search_domain_filter": [_domain(word) for word in _SPLIT.split(asking.domains) if word],
        "search_after_date_filter": _american(asking.after),
        "search_before_date_filter": _american(asking.before),
        "language_preference": asking.language.strip(),
        "previous_response_id": asking.previous,
    }
    return {name: value for name, value in given.items() if value or name == "input"}


def _domain(word: str) -> str:
    """The domain of a pasted address: https://nature.com/ → nature.com."""
    sign = "-" if word.startswith("-") else ""
    return sign + _SCHEME.sub("", word.removeprefix("-")).rstrip("/")


def _american(day: str) -> str:
    """2026-11-30, as a date field gives it, → 11/30/2026, as the upstreams take it."""
    match = _ISO_DATE.fullmatch(day)
    return f"{match[2]}/{match[3]}/{match[1]}" if match else day


def _iso(day: str) -> str:
    """11/30/2026 → 2026-11-30."""
    month, _, rest = day.partition("/")
    date, _, year = rest.partition("/")
    return f"{year}-{month}-{date}" if year else ""


def errors_of(problem: Problem) -> dict[str, str]:
    """Field of the form → what is wrong with it; `form` for what is about none of them."""
    place = problem.param or ""
    name = place.partition("[")[0]
    message = problem.message.removeprefix(f"{place} ") if place else problem.message
    field = _LABELS.get(name, name)
    return {field if field in FIELDS else "form": message[:1].upper() + message[1:]}
