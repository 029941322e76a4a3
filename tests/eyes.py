"""What axe objects to on an open page, without looking at the same thing twice.

Two of its rules are about colours, and take three quarters of the time: they ask of each piece of text
what stands behind it. Pages share most of what they show, so in one look (a width, a scheme) a piece of
text whose element, and whatever it stands in, has been found fine once is not asked about again.
"""

from __future__ import annotations

from collections import defaultdict

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

LOOK = """
() => {
  for (const moving of document.getAnimations())
    if (moving.effect.getComputedTiming().endTime < Infinity) moving.finish();
  return `${innerWidth} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
}
"""
"""Says in which look the page is, once its colours have come to rest."""
TEXTS = """
() => {
  const told = new Map();
  const drawn = [
    "color", "backgroundColor", "backgroundImage", "opacity", "fontSize", "fontWeight", "textDecorationLine",
    "textShadow", "borderBottom",
  ];
  const kind = (element) => {
    if (!element) return "";
    if (!told.has(element)) {
      const style = getComputedStyle(element);
      const own = [element.localName, element.className, ...drawn.map((name) => style[name])].join(" ");
      told.set(element, `${kind(element.parentElement)}/${own}`);
    }
    return told.get(element);
  };
  const says = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim();
  const isText = (element) =>
    element.matches("input, select, textarea") || [...element.childNodes].some(says);
  const isSeen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  window.texts = [...document.body.querySelectorAll("*")].filter((one) => isText(one) && isSeen(one));
  return window.texts.map(kind);
}
"""
"""Finds all text that shows, and tells of each how it and all that it stands in are drawn."""
ASK = """
async ([fresh, all]) => {
  const colours = ["color-contrast", "link-in-text-block"];
  const few = { preload: false, resultTypes: ["violations"] }; // `preload` fetches our stylesheets wrongly
  const told = ({ violations }) => violations.flatMap(
    ({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  const off = Object.fromEntries(colours.map((id) => [id, { enabled: false }]));
  const shape = all ? told(await axe.run(document, { ...few, rules: off })) : [];
  if (!fresh.length) return [shape, []];
  const include = fresh.map((number) => window.texts[number]);
  return [shape, told(await axe.run({ include }, { ...few, runOnly: colours }))];
}
"""

_fine: dict[str, set[str]] = defaultdict(set)
"""By look: the kinds of text whose colours are fine."""


def violations(page: Page) -> list[str]:
    """Each rule that is broken, with the element that breaks it."""
    return _ask(page, of_all=True)


def colour_violations(page: Page) -> list[str]:
    """Of the colours only: for a page that is the same in a scheme in which it was looked at before."""
    return _ask(page, of_all=False)


def _ask(page: Page, *, of_all: bool) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    fine = _fine[page.evaluate(LOOK)]
    kinds: list[str] = page.evaluate(TEXTS)
    first = {kind: number for number, kind in reversed(list(enumerate(kinds))) if kind not in fine}
    shape, colours = page.evaluate(ASK, [sorted(first.values()), of_all])
    if not colours:
        fine.update(first)
    return [*shape, *colours]
