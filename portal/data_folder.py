"""The data folder: for its owner only, with the secrets that a portal makes for itself (SPEC 1.4), and
a lock, since an embedded portal has it alone (STACK §2.2.7)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from portal.env import EnvError

LOCK_FILE = "sonde.lock"
LONGEST_NOTE = 4096
"""Bytes that are read of a lock."""


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


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a data folder. The addresses are those of a portal that `up` started, else ""."""

    pid: str
    listening: str = ""
    public_url: str = ""


class FolderInUse(Exception):
    """Another process has the data folder. One line for people."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        super().__init__(
            f"{folder} is in use by another Sonde (process {holder.pid}): stop it, or choose another DATA_DIR"
        )
        self.holder = holder


class FolderLock:
    """An advisory lock that the system frees when the process ends, however it ends."""

    def __init__(self) -> None:
        self.handle: int | None = None

    def take(self, folder: Path) -> None:
        """Lock `folder` for this process, once; FolderInUse names the process that has it."""
        if self.handle is not None:
            return
        handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(os.pread(handle, LONGEST_NOTE, 0))
            os.close(handle)
            raise FolderInUse(folder, holder) from None
        self.handle = handle
        self.tell()

    def tell(self, listening: str = "", public_url: str = "") -> None:
        """Say in the lock, for whoever looks, where this process can be reached. It has to be held."""
        assert self.handle is not None, "the folder is not locked"
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, f"{os.getpid()}\n{listening}\n{public_url}\n".encode(), 0)

    def free(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def holder_of(folder: Path) -> Holder | None:
    """Who has the folder now, if anybody."""
    lock = FolderLock()
    try:
        lock.take(folder)
    except FolderInUse as error:
        return error.holder
    lock.free()
    return None


def _holder(note: bytes) -> Holder:
    pid, listening, public_url, *_ = [*note.decode("utf-8", "replace").splitlines(), "", "", ""]
    return Holder(pid or "unknown", listening, public_url)
