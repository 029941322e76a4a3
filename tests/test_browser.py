"""A Chromium for the browser tests: which one is taken, and what may be installed."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import brotli
import pytest

from tests.browser import BrowserError, find_chromium
from tests.install_browser import refuse_strangers, unpack

PROGRAM = b'#!/bin/sh\necho "Chromium $@ $LD_LIBRARY_PATH"\n'


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def packed(**files: bytes) -> bytes:
    """A compressed archive, as the package holds its libraries and fonts."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in files.items():
            add(archive, name, content)
    return bytes(brotli.compress(plain.getvalue()))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An archive of the shape of the npm package, with a shell script as the browser."""
    path = tmp_path / "package.tgz"
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "package/bin/chromium.br", brotli.compress(PROGRAM))
        add(archive, "package/bin/al2023.tar.br", packed(library=b"1"))
        add(archive, "package/bin/fonts.tar.br", packed(font=b"2"))
    return path


def test_it_starts_the_unpacked_browser_with_its_libraries(package: Path, tmp_path: Path) -> None:
    target = tmp_path / "my chromium"
    unpack(package, target)

    said = subprocess.run(
        [target / "chromium", "--version", "a b"], env={}, capture_output=True, text=True, check=True
    )

    assert said.stdout == f"Chromium --version a b {target}/al2023/lib\n"


def test_it_refuses_a_package_that_it_does_not_know(package: Path) -> None:
    with pytest.raises(BrowserError, match="not the package we know"):
        refuse_strangers(package)


def test_it_takes_the_browser_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(PROGRAM)
    mine.chmod(0o755)
    monkeypatch.setenv("CHROME", str(mine))

    assert find_chromium() == str(mine)


def test_it_names_the_variable_of_a_browser_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROME", "/no/such/browser")

    with pytest.raises(BrowserError, match=r"^CHROME: /no/such/browser"):
        find_chromium()
