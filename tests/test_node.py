"""Node.js and the SDKs for it: which program is taken, and that nothing comes unpinned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.install_node import LISTS, major


def program(folder: Path, version: str) -> str:
    path = folder / "node"
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("version", "number"), [("v22.3.0", 22), ("v8.17.0", 8), ("nothing", 0)])
def test_it_knows_how_new_a_node_is(tmp_path: Path, version: str, number: int) -> None:
    assert major(program(tmp_path, version)) == number


def test_it_takes_nothing_that_does_not_run() -> None:
    assert major("/no/such/node") == 0


def test_it_pins_every_package_to_its_digest_and_to_no_registry() -> None:
    asked = json.loads((LISTS / "package.json").read_text())["dependencies"]
    packages = json.loads((LISTS / "package-lock.json").read_text())["packages"]
    del packages[""]
    assert {name.removeprefix("node_modules/") for name in packages} >= set(asked)
    for name, package in packages.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name
