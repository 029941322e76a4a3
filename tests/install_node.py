"""Installs what the tests call the portal with from Node.js: the SDKs that tests/node pins, in .venv.

Node.js is the machine's own where it is new enough, else the one that drives the browser, else it comes
out of a wheel. npm, which knows its registry, is the machine's own or the wheel's.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path

from tests.browser import BrowserError, find_node
from tests.install_browser import install_node, npm, run, say

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "node"
SDKS = ROOT / ".venv" / "node-sdks"
OLDEST = 22
"""What the newest openai SDK asks for."""


class NodeError(Exception):
    """The SDKs are not to be had. One line."""


def install_sdks() -> Path:
    """The folder whose node_modules hold the SDKs, once they are there. NodeError says why not."""
    SDKS.mkdir(exist_ok=True)
    stamp, wanted = SDKS / "stamp", (LISTS / "package-lock.json").read_text()
    with (SDKS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            try:
                fetch()
            except BrowserError as error:
                raise NodeError(f"the Node.js SDKs of tests/node cannot be installed: {error}") from None
            stamp.write_text(wanted)
    return SDKS


def fetch() -> None:
    """What the lock names, to the digest."""
    say("installing the Node.js SDKs of tests/node (50 MB)")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LISTS / name, SDKS / name)
    # Node trusts a list of authorities of its own; this machine may know more.
    variables = {"NODE_EXTRA_CA_CERTS": ssl.get_default_verify_paths().cafile or "", **os.environ}
    options: list[str | Path] = ["--ignore-scripts", "--no-audit", "--no-fund", "--cache", SDKS / "cache"]
    run([*npm(), "ci", *options], cwd=SDKS, env=variables)
    shutil.rmtree(SDKS / "cache", ignore_errors=True)


def install_new_node() -> str:
    """The path of a Node.js that runs the SDKs. NodeError says why there is none."""
    for program in (shutil.which("node"), find_node()):
        if program is not None and major(program) >= OLDEST:
            return program
    try:
        return install_node()
    except BrowserError as error:
        raise NodeError(f"no Node.js {OLDEST} or newer for tests/node: {error}") from None


def major(program: str) -> int:
    """The major version of a Node.js; 0 for what is none."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.match(r"v(\d+)\.", said.stdout)
    return int(found[1]) if found else 0
