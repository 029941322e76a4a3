"""The data folder: for its owner only, with the secrets that a portal makes for itself (SPEC 1.4)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from portal.env import EnvError


def made_folder(path: Path) -> Path:
    """The folder in its absolute form, made when there is none. Errors: EnvError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EnvError(f"DATA_DIR: cannot make {path}: {error.strerror}") from None
    return path.resolve()


def own_secret(name: str, path: Path, make: Callable[[], str]) -> str:
    """What `path` holds; made once, and kept there (0600), when there is no such file. Errors: EnvError."""
    return _kept(name, path) or _keep(name, path, make())


def _kept(name: str, path: Path) -> str:
    try:
        kept = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        raise EnvError(f"{name}: cannot read {path}") from None
    if not kept:
        raise EnvError(f"{name}: {path} is empty: restore it or delete it")
    return kept


def _keep(name: str, path: Path, secret: str) -> str:
    """Written whole before it gets its name: of two processes that start at once, one is the first."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(f"{secret}\n")
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        os.unlink(draft)
    except OSError as error:
        raise EnvError(f"DATA_DIR: cannot write {path}: {error.strerror}") from None
    return _kept(name, path)
