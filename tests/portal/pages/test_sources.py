"""Rules that hold for the text of every template, stylesheet and module (SPEC 7)."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tables import of_each

ROOT = Path(__file__).resolve().parents[3]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
STATIC = sorted(path for path in (ROOT / "static").rglob("*") if path.is_file())
ICONS = set(re.findall(r'<symbol id="([a-z0-9-]+)"', (ROOT / "static" / "icons.svg").read_text()))
CSS = "".join(path.read_text() for path in STATIC if path.suffix == ".css")
TOKENS = set(re.findall(r"(--[a-z0-9-]+):", CSS))


def named(paths: list[Path]) -> dict[str, list[Path]]:
    return {str(path.relative_to(ROOT)): [path] for path in paths}


@of_each(named(TEMPLATES))
def test_it_has_nothing_inline(path: Path) -> None:
    text = path.read_text()

    assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)


@of_each(named([*TEMPLATES, *STATIC]))
def test_it_takes_nothing_from_outside(path: Path) -> None:
    text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")

    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)
    assert not re.search(r"(?:url\(|@import |from )[\"']?(?:https?:)?//", text)


@of_each(named(TEMPLATES))
def test_it_uses_icons_that_exist(path: Path) -> None:
    assert set(re.findall(r"{% icon '([a-z0-9-]+)'", path.read_text())) <= ICONS


def test_it_uses_tokens_that_exist() -> None:
    used = set(re.findall(r"var\((--[a-z0-9-]+)", CSS))

    assert used <= TOKENS


@of_each(named([path for path in STATIC if path.suffix == ".css"]))
def test_it_names_colours_in_one_place(path: Path) -> None:
    if path.name != "tokens.css":
        bare = re.sub(r"light-dark\([^;]*\)|rgb\(8 18 16 / 45%\)", "", path.read_text())

        assert not re.search(r"#[0-9a-f]{3,8}\b|rgba?\(|hsl", bare)


def test_it_loads_every_stylesheet_and_no_other() -> None:
    loaded = set(re.findall(r'@import url\("css/([a-z]+\.css)"\)', (ROOT / "static/sonde.css").read_text()))

    assert loaded | {"admin.css"} == {path.name for path in (ROOT / "static/css").iterdir()}
