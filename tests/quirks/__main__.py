"""Takes each handling out, and looks whether its test fails: `python -m tests.quirks [WORDS of a line …]`.

It works in a copy of the tree. Each test is seen to pass before anything is taken out. Nothing of this runs
with the suite: a change to a handling or to its test is the time to run the lines that it touches.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.environment import ROOT
from tests.quirks.row import Quirk, source_of
from tests.quirks.table import QUIRKS

FAILED = 1
"""What pytest says when a test has failed, as opposed to not having been found."""


def copy_of_the_tree(folder: Path) -> Path:
    """All that git knows and what was added since."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    # By hash: what is changed and put back within a second is told apart.
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def verdict_of(tests: list[str], tree: Path) -> tuple[int, str]:
    """pytest's exit code, and its last words."""
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-n", "0", "-q", "-x", "--tb=line"]
    names = [f"tests/{test}" for test in tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    command += ["-p", "no:cacheprovider", *names]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr)[-2000:]


def take_out(quirk: Quirk, tree: Path) -> str:
    """What is wrong with the row; "" when its test fails, as it should."""
    place = tree / quirk.path
    before = place.read_text(encoding="utf-8")
    changed = quirk.without(source_of(quirk))
    ast.parse(changed)
    try:
        place.write_text(changed, encoding="utf-8")
        code, words = verdict_of([quirk.test], tree)
    finally:
        place.write_text(before, encoding="utf-8")
    if code == FAILED and " error" not in words.splitlines()[-1]:
        return ""
    return "stays green" if code == 0 else f"pytest says {code}\n{words}"


def main(words: list[str]) -> int:
    chosen = [quirk for quirk in QUIRKS if not words or any(word in quirk.line for word in words)]
    if not chosen:
        print(f"No line of the table has any of: {' '.join(words)}")
        return 2
    with tempfile.TemporaryDirectory(prefix="sonde-quirks-") as folder:
        tree = copy_of_the_tree(Path(folder))
        code, said = verdict_of(list(dict.fromkeys(quirk.test for quirk in chosen)), tree)
        if code:
            print(f"Not all tests pass as things are:\n{said}")
            return 1
        wrong = 0
        for quirk in chosen:
            trouble = take_out(quirk, tree)
            wrong += bool(trouble)
            print(f"{'WRONG' if trouble else 'red'}\t{quirk.line}\t{trouble}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} handlings are held by their tests.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
