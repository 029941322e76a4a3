"""Finds a Chromium for the browser tests, or installs one.

Installed is Debian's package when we are root and have apt-get, else the binary that the npm package
`@sparticuz/chromium` carries (Linux on x86-64), kept in .venv.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / ".venv" / "chromium" / "chromium"
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
    if OWN.exists():
        yield str(OWN)


def runs(program: str) -> bool:
    """Ubuntu's package, for one, is only a pointer to another shop."""
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return True
