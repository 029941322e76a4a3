"""The eight placeholder sources of a run, and the ways in which a marker bends them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sandbox.scenarios import Script
from sandbox.topics import Topic


@dataclass(frozen=True, slots=True)
class Source:
    """One found page. Dates are YYYY-MM-DD; None leaves the member out."""

    url: str
    title: str | None
    date: str | None = None
    last_updated: str | None = None
    snippet: str | None = ""


_KINDS = (
    ("overview", "{short}: an overview", "2026-03-14"),
    ("background", "the background of {first}", "2025-11-02"),
    ("figures", "figures on {first}", "2026-06-21"),
    ("methods", "ways to measure {second}", "2024-09-30"),
    ("case-study", "{second}, a case study", "2026-01-17"),
    ("objections", "objections on {third}", "2025-07-08"),
    ("review", "a review of the evidence on {first}", "2026-08-05"),
    ("outlook", "the outlook for {third}", "2026-09-12"),
)
_HOSTS = ("example.org", "example.com", "example.net")

HOSTILE_URLS = (
    "javascript:alert(document.domain)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "http://127.0.0.1:8000/admin/",
    "http://169.254.169.254/latest/meta-data/",
    "https://user:password@example.org/private",
    'https://example.org/"><img src=x onerror=alert(1)>',
    "https://example.org/line\nbreak",
)
ODD_URLS = (
    "https://example.org/wiki/Probe_(instrument)",
    "https://example.org/wiki/Probe_%28instrument%29",
    "https://EXAMPLE.com:443/a/../report?b=2&a=1#part",
    "https://example.com/report?b=2&a=1",
    "https://bücher.example/straße?q=größe",
    "https://xn--bcher-kva.example/stra%C3%9Fe?q=gr%C3%B6%C3%9Fe",
    "https://example.net/a%20b/%E2%9C%93,c;d",
    "http://example.net/a%20b/%E2%9C%93,c;d/",
)


def plain_sources(topic: Topic) -> tuple[Source, ...]:
    return tuple(_placeholder(topic, index) for index in range(len(_KINDS)))


def _placeholder(topic: Topic, index: int) -> Source:
    kind, about, date = _KINDS[index]
    what = about.format(short=topic.short, first=topic.first, second=topic.second, third=topic.third)
    return Source(
        url=f"https://{_HOSTS[index % len(_HOSTS)]}/sandbox/{topic.slug}/{kind}",
        title=f"Placeholder {index + 1}: {what}",
        date=date,
        last_updated=date,
        snippet=f"Stands where a real run would show a passage on: {what}. There is no such page.",
    )


def dress_sources(sources: tuple[Source, ...], script: Script) -> tuple[Source, ...]:
    """The sources as the script's markers bend them."""
    if "no-sources" in script or "no-sources-links" in script:
        return ()
    for marker, urls in (("hostile-sources", HOSTILE_URLS), ("urls-odd", ODD_URLS)):
        if marker in script:
            sources = tuple(replace(source, url=url) for source, url in zip(sources, urls, strict=True))
    if "hostile-sources" in script:
        sources = tuple(
            replace(source, title=f"<script>alert(1)</script> {source.title}") for source in sources
        )
    if "sources-bare" in script:
        sources = tuple(Source(source.url, "" if place % 2 else None) for place, source in enumerate(sources))
    if "no-snippet" in script:
        sources = tuple(replace(source, snippet=None) for source in sources)
    return sources
