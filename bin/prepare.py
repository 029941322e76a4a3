"""Makes .venv and installs the pinned requirements into it, once.

Called by bin/env.sh with a Python that may be the system's own, so it uses the standard library only.

    prepare.py up|dev              bring .venv up to date
    prepare.py --is-ready up|dev   exit 0 when there is nothing to do
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# Stands in .venv while pip works: what it leaves behind when it is killed cannot be trusted.
UNFINISHED = VENV / "unfinished"
LISTS = {
    "up": ("requirements.txt", "constraints.txt"),
    "dev": ("requirements-dev.txt", "requirements.txt", "constraints.txt"),
}


def say(text: str) -> None:
    print(f"sonde: {text}", file=sys.stderr, flush=True)


def wanted_stamp(kind: str, version: str) -> str:
    return "\n".join([version, *((ROOT / name).read_text() for name in LISTS[kind])])


def read_stamp(kind: str) -> str | None:
    try:
        return (VENV / f"stamp-{kind}").read_text()
    except OSError:
        return None


def is_ready(kind: str) -> bool:
    """True when this very interpreter, being .venv's, has what the lists name."""
    return not UNFINISHED.exists() and read_stamp(kind) == wanted_stamp(kind, sys.version)


def venv_version() -> str | None:
    """The version of .venv's Python when it runs, is new enough and has pip, else None."""
    code = "import pip, sys; print(sys.version, end=''); sys.exit(sys.version_info < (3, 11))"
    probe = [str(PYTHON), "-I", "-c", code]
    try:
        found = subprocess.run(probe, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return found.stdout if found.returncode == 0 else None


def make_venv(turn: int) -> None:
    if VENV.exists():
        say("removing an unfinished or broken .venv")
        shutil.rmtree(VENV)
    say(f"making .venv with Python {sys.version.split()[0]}")
    VENV.mkdir()
    UNFINISHED.touch()
    run([sys.executable, "-I", "-m", "venv", str(VENV)], turn)


def install(kind: str, turn: int) -> None:
    requirements = LISTS[kind][0]
    say(f"installing {requirements} (a minute or so the first time)")
    UNFINISHED.touch()
    options = ["-qq", "--no-input", "--only-binary", ":all:", "-r", str(ROOT / requirements)]
    try:
        run([str(PYTHON), "-I", "-m", "pip", "install", *options], turn)
    except subprocess.CalledProcessError:
        UNFINISHED.unlink()  # pip gave up by itself, so what was there before still stands
        raise


def run(command: list[str], turn: int) -> None:
    """Hand our turn on: when we are killed, it lasts until the command has ended too."""
    environment = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(command, check=True, env=environment, cwd=ROOT, pass_fds=[turn])


def prepare(kind: str, turn: int) -> None:
    version = None if UNFINISHED.exists() else venv_version()
    if version is None:
        make_venv(turn)
        version = venv_version()
    if version is None:
        raise SystemExit("sonde: the new .venv has no working Python; remove .venv and try again")
    stamp = wanted_stamp(kind, version)
    if read_stamp(kind) == stamp:
        return
    install(kind, turn)
    (VENV / f"stamp-{kind}").write_text(stamp)
    UNFINISHED.unlink()
    say(".venv is ready")


def take_turn() -> int:
    """Lock the checkout against a second start in it; the system frees the lock when we die."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another start that prepares .venv")
        fcntl.flock(folder, fcntl.LOCK_EX)
    return folder


def main(arguments: list[str]) -> int:
    if arguments[0] == "--is-ready":
        return 0 if is_ready(arguments[1]) else 1
    try:
        prepare(arguments[0], take_turn())
    except subprocess.CalledProcessError as failure:
        if "install" in failure.cmd:  # pip has said what it lacks, but not that it may be the way there
            say("is the package index out of reach? PIP_INDEX_URL and HTTPS_PROXY lead pip to it")
        say(f"this failed with exit code {failure.returncode}: {' '.join(map(str, failure.cmd))}")
        return 1
    except OSError as error:
        say(f"cannot make .venv: {error.strerror}: {error.filename}")
        return 1
    except KeyboardInterrupt:
        say("stopped; run it again to finish .venv")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
