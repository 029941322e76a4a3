from __future__ import annotations

import ast
import html
import json
import re
import shlex
from urllib.parse import urlsplit

import pytest
from django.test import Client
from pytest_django import Settings

from portal.pages import setups
from portal.pages.setups import KEY, Setup, Snippet
from tests.portal.people import somebody
from tests.running_server import ROOT

URL = "https://sonde.example.org"
SETUPS = (*setups.agents(URL), *setups.scripts(URL))
SNIPPETS = [
    pytest.param(snippet, id=f"{setup.name}-{number}")
    for setup in SETUPS
    for number, snippet in enumerate(setup.snippets, 1)
]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(somebody(), backend="django.contrib.auth.backends.ModelBackend")
    return client


def of_kind(*kinds: str) -> list[object]:
    return [found for found in SNIPPETS if getattr(found.values[0], "kind", "") in kinds]


@pytest.mark.django_db
def test_it_shows_every_snippet_with_the_portal_s_own_address(client: Client, settings: Settings) -> None:
    settings.PUBLIC_URL = URL
    page = client.get("/connect").text
    shown = [html.unescape(text) for text in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)]
    assert shown == [snippet.text for setup in SETUPS for snippet in setup.snippets]


@pytest.mark.django_db
def test_it_copies_each_snippet_by_its_own_name(client: Client) -> None:
    page = client.get("/connect").text
    copied = re.findall(r'data-copy="([^"]+)"', page)
    assert len(copied) == len(set(copied)) == len(SNIPPETS)
    assert set(copied) == set(re.findall(r'<pre id="([^"]+)"', page))


@pytest.mark.django_db
def test_it_hands_out_the_file_to_anybody() -> None:
    answer = Client().get("/sonde_mcp.py")
    assert answer.content == (ROOT / "sonde_mcp.py").read_bytes()
    assert answer.headers["Content-Disposition"] == 'attachment; filename="sonde_mcp.py"'
    assert Client().post("/sonde_mcp.py").status_code == 405


@pytest.mark.django_db
def test_it_is_for_people_who_are_logged_in() -> None:
    assert Client().get("/connect").status_code == 302


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_it_names_the_portal_and_leaves_the_key_out(snippet: Snippet) -> None:
    assert URL in snippet.text
    assert KEY in snippet.text or "${input:sonde-key}" in snippet.text
    assert "sonde_" not in snippet.text.replace("sonde_mcp.py", "")


@pytest.mark.parametrize("snippet", of_kind("json"))
def test_it_writes_configurations_that_are_json(snippet: Snippet) -> None:
    found = json.loads(snippet.text)
    server = found.get("mcpServers", found.get("servers"))["sonde"]
    if "url" in server:
        assert server["url"] == f"{URL}/mcp"
        assert server["headers"]["Authorization"].startswith("Bearer ")
    else:
        assert server["args"] == [setups.PATH]
        assert server["env"] == {"SONDE_URL": URL, "SONDE_API_KEY": KEY}


@pytest.mark.parametrize("snippet", of_kind("python"))
def test_it_writes_python(snippet: Snippet) -> None:
    assert ast.parse(snippet.text).body


@pytest.mark.parametrize("snippet", of_kind("shell"))
def test_it_writes_commands_that_a_shell_reads(snippet: Snippet) -> None:
    words = shlex.split(snippet.text.replace("\\\n", ""))
    assert words[0] in ("claude", "curl", "npx")
    if "--header" in words:
        assert words[words.index("--header") + 1] == f"Authorization: Bearer {KEY}"


@pytest.mark.parametrize("snippet", of_kind("address"))
def test_it_writes_addresses_that_the_gateway_knows(snippet: Snippet) -> None:
    assert urlsplit(snippet.text).path in (f"/{KEY}/mcp", f"/{KEY}/sse")


@pytest.mark.parametrize("setup", [setup for setup in SETUPS if setup.places], ids=lambda setup: setup.name)
def test_it_says_where_the_file_lies_on_three_systems(setup: Setup) -> None:
    assert [system for system, _ in setup.places] == ["macOS", "Windows", "Linux"]
