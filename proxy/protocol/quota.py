"""What an account has left, read directly or through FlareSolverr (perplexity-web §11)."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

from proxy.protocol.session import Jar
from proxy.protocol.tolerant import detail_of, object_of, text_of
from proxy.protocol.web_frame import read_json

SOLVER_MAX_TIMEOUT_MS = 20_000
_PRE = re.compile(r"<pre[^>]*>(.*?)</pre>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Quota:
    """Answers left, as of the reading."""

    pro: int
    research: int


def read_quota(body: str | bytes) -> Quota | None:
    """None unless both counters are whole numbers from 0 on: a page of something else has none."""
    value = object_of(read_json(body))
    pro, research = _count(value.get("remaining_pro")), _count(value.get("remaining_research"))
    return None if pro is None or research is None else Quota(pro, research)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def solver_request(url: str, jar: Jar, domain: str) -> dict[str, object]:
    """The JSON body for FlareSolverr's `POST /v1`, cookies of the session included."""
    cookies = [
        {"name": name, "value": value, "domain": domain, "path": "/", "secure": True, "httpOnly": True}
        for name, value in jar.items()
    ]
    return {"cmd": "request.get", "url": url, "maxTimeout": SOLVER_MAX_TIMEOUT_MS, "cookies": cookies}


@dataclass(frozen=True, slots=True)
class SolverFailed:
    """`reason` is FlareSolverr's own sentence, masked and short."""

    reason: str


def read_solved(body: bytes) -> Quota | SolverFailed:
    """FlareSolverr's answer. Its own status says little: the browser's page is what counts."""
    value = object_of(read_json(body))
    solution: Mapping[str, object] = object_of(value.get("solution"))
    if value.get("status") != "ok" or solution.get("status") != 200:
        return SolverFailed(detail_of(value.get("message")) or "FlareSolverr gave no page.")
    page = text_of(solution.get("response"))
    shown = _PRE.search(page)
    quota = read_quota(html.unescape(shown[1]) if shown else page)
    return quota or SolverFailed("The page that FlareSolverr fetched shows no counters.")
