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
  const drawn = [
    "color", "backgroundColor", "backgroundImage", "opacity", "fontSize", "fontWeight", "textDecorationLine",
    "textShadow", "borderBottom",
  ];
  const short = (text) => {
    let [one, other] = [7, 11];
    for (const sign of text) {
      one = (Math.imul(one, 31) + sign.codePointAt(0)) | 0;
      other = Math.imul(other, 1000003) ^ sign.codePointAt(0);
    }
    return `${one} ${other}`;
  };
  const known = new Map([[null, ""]]);
  const kind = (element) => {
    if (!known.has(element)) {
      const style = getComputedStyle(element);
      const own = [element.localName, element.className, ...drawn.map((name) => style[name])];
      known.set(element, short([kind(element.parentElement), ...own].join()));
    }
    return known.get(element);
  };
  const says = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim();
  const isText = (element) =>
    element.matches("input, select, textarea") || [...element.childNodes].some(says);
  const isSeen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  window.texts = new Map();
  for (const element of document.body.querySelectorAll(":not(option)"))
    if (isText(element) && isSeen(element) && !texts.has(kind(element))) texts.set(kind(element), element);
  return [...texts.keys()];
}
"""
"""Finds the kinds of text that show, each with an element: alike are those that are drawn alike, and stand in
what is drawn alike."""
ASK = """
async ([fresh, all]) => {
  const colours = ["color-contrast", "link-in-text-block"];
  const few = { preload: false, resultTypes: ["violations"] }; // `preload` fetches our stylesheets wrongly
  const told = ({ violations }) => violations.flatMap(
    ({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  const off = Object.fromEntries(colours.map((id) => [id, { enabled: false }]));
  const shape = all ? told(await axe.run(document, { ...few, rules: off })) : [];
  if (!fresh.length) return [shape, []];
  const include = fresh.map((kind) => window.texts.get(kind));
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
    fresh = [kind for kind in kinds if kind not in fine]
    shape, colours = page.evaluate(ASK, [fresh, of_all])
    if not colours:
        fine.update(fresh)
    return [*shape, *colours]
