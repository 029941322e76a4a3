"""What bin/check runs: style, types, import directions, migrations and deployment settings.

Every check runs, so that one call tells all; the developer's own settings stay out of it.
"""

import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# By module, not by program: programs hold the path of a .venv that may have moved.
MODULE = [sys.executable, "-m"]
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
MANAGE = [sys.executable, "manage.py"]
CHECKS: dict[str, list[str]] = {
    "ruff": [*MODULE, "ruff", "check", "--quiet", "."],
    "ruff format": [*MODULE, "ruff", "format", "--check", "--quiet", "."],
    "mypy": [*MODULE, "mypy"],
    "import directions": [sys.executable, "-c", LINT_IMPORTS, "--no-cache"],
    "migrations": [*MANAGE, "makemigrations", "--check", "--dry-run"],
    "deployment": [*MANAGE, "check", "--deploy", "--fail-level", "WARNING"],
}
# An operator's server: no check here opens a connection.
DEPLOYED = {
    "SONDE_MODE": "cluster",
    "DATABASE_URL": "postgresql://sonde@127.0.0.1:1/sonde",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "PUBLIC_URL": "https://sonde.example",
    "SECRET_KEY": secrets.token_urlsafe(48),
}


def environment(data: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    return {**kept, "SONDE_ENV_FILE": "", "DATA_DIR": data, "PYTHONPATH": str(ROOT)}


def passes(name: str, variables: dict[str, str]) -> bool:
    """Run one check; say in a line how it went, and its words when it failed."""
    started = time.monotonic()
    done = subprocess.run(
        CHECKS[name],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    if done.returncode:
        print(done.stdout.rstrip(), flush=True)
    print(f"{'FAILED' if done.returncode else 'ok    '} {name} ({seconds:.1f} s)", flush=True)
    return done.returncode == 0


def main() -> int:
    with tempfile.TemporaryDirectory() as data:
        usual = environment(data)
        results = [passes(name, {**usual, **(DEPLOYED if name == "deployment" else {})}) for name in CHECKS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
