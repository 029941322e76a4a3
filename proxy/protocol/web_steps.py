"""What the upstream does on its way to the answer, out of the four places that tell it.

The reasoning lines of proxy-contract §4.5 come from here: plan goals, queries, pages read (three a
step), pages found (eight a list). Saying each line only once is the caller's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proxy.protocol.delta import Progress, Reasoning
from proxy.protocol.tolerant import items_of, object_of, objects_of, text_of, whole_of
from proxy.protocol.web_frame import read_json
from proxy.protocol.web_sources import read_source

_READ_SHOWN = 3
_FOUND_SHOWN = 8


def goals(items: Iterable[object]) -> Iterator[Reasoning]:
    """Of a plan: `[{description}]`."""
    for goal in items:
        description = text_of(object_of(goal).get("description")).strip()
        if description:
            yield Reasoning("planning", description)


def progress(plan: dict[str, object]) -> Progress | None:
    percent = whole_of(plan.get("pct_complete"))
    eta = whole_of(plan.get("eta_seconds_remaining"))
    if percent is not None:
        percent = min(max(percent, 0), 100)
    if eta is not None and eta < 0:
        eta = None
    return None if percent is None and eta is None else Progress(percent, eta)


def queries(items: Iterable[object]) -> Iterator[Reasoning]:
    """`[{query}]`, or plain strings."""
    for item in items:
        query = (text_of(item) or text_of(object_of(item).get("query"))).strip()
        if query:
            yield Reasoning("searching", query)


def pages_read(urls: Iterable[object]) -> Iterator[Reasoning]:
    shown = [text_of(url).strip() for url in urls]
    for url in [url for url in shown if url][:_READ_SHOWN]:
        yield Reasoning("reading", url)


def pages_found(results: Iterable[tuple[int, object]]) -> Iterator[Reasoning]:
    """(index, web result item) of one list; only its first eight are shown."""
    for index, item in results:
        source = read_source(item) if index < _FOUND_SHOWN else None
        if source:
            yield Reasoning("found", source.url, source.title or source.url)


def step_results(step: dict[str, object]) -> list[object]:
    """The web results that a step brings along."""
    return items_of(content_of(step).get("web_results"))


def step_lines(step: dict[str, object]) -> Iterator[Reasoning]:
    """One step, of `pro_search_steps` or of the `text` list; unknown types say nothing."""
    content = content_of(step)
    match step.get("step_type"):
        case "SEARCH_WEB":
            yield from queries(items_of(content.get("queries")))
        case "READ_RESULTS":
            yield from pages_read(items_of(content.get("urls")))
        case "SEARCH_RESULTS":
            yield from pages_found(enumerate(items_of(content.get("web_results"))))


def content_of(step: dict[str, object]) -> dict[str, object]:
    """What a step holds: `content`, or the member named after the step's type (`search_web_content`)."""
    plain = step.get("content")
    if isinstance(plain, dict):
        return plain
    return next((object_of(step[name]) for name in step if name.endswith("_content")), {})


def report_body(assets: object) -> str:
    """The deep-research report out of `assets: [{research_report: {source_content}}]`."""
    bodies = (
        text_of(object_of(asset.get("research_report")).get("source_content")).strip()
        for asset in objects_of(assets)
    )
    return "\n\n".join(body for body in bodies if body)


def step_report(step: dict[str, object]) -> str:
    """The report of a RESEARCH_ANSWER step, "" for others."""
    if step.get("step_type") != "RESEARCH_ANSWER":
        return ""
    return report_body(step.get("assets")) or report_body(content_of(step).get("assets"))


def final_answer(step: dict[str, object]) -> tuple[str | None, list[object]]:
    """Answer and web results of a FINAL step (perplexity-web §8): a JSON string, or plain text."""
    answer = content_of(step).get("answer")
    if step.get("step_type") != "FINAL" or not isinstance(answer, str):
        return None, []
    nested = read_json(answer) if answer.lstrip().startswith("{") else None
    if isinstance(nested, dict) and isinstance(nested.get("answer"), str):
        return text_of(nested["answer"]), items_of(nested.get("web_results"))
    return answer, items_of(content_of(step).get("web_results"))


def read_step_list(text: str) -> tuple[list[dict[str, object]], str | None]:
    """The `text` member: its steps; or, in its oldest forms, no steps and the answer itself."""
    value = read_json(text)
    if isinstance(value, list):
        return objects_of(value), None
    if isinstance(value, dict) and isinstance(value.get("answer"), str):
        return [], text_of(value["answer"])
    return [], None if isinstance(value, dict) else text
