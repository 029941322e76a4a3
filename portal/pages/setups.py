"""What Connect offers to paste: how each client is told of this portal. The key in it is always YOUR_KEY."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

KEY = "YOUR_KEY"
FILE = "sonde_mcp.py"
PATH = "/path/to/sonde_mcp.py"
"""Where the reader has put the file; configurations know no home folder."""
Kind = Literal["shell", "python", "javascript", "json", "address"]


@dataclass(frozen=True, slots=True)
class Snippet:
    """`kind` is the language of the text."""

    title: str
    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Setup:
    """`places` are the files to edit, by system."""

    name: str
    title: str
    about: str
    snippets: tuple[Snippet, ...]
    places: tuple[tuple[str, str], ...] = ()
    after: str = ""


def agents(url: str) -> tuple[Setup, ...]:
    """Clients of `/mcp`, for the portal at `url`."""
    return (
        _claude_code(url),
        _claude_desktop(url),
        _cursor(url),
        _vs_code(url),
        _chatgpt(url),
        _inspector(url),
    )


def scripts(url: str) -> tuple[Setup, ...]:
    """Clients of the HTTP APIs."""
    return (_curl(url), _openai(url), _perplexity(url))


def _claude_code(url: str) -> Setup:
    over_http = f'claude mcp add --transport http sonde {url}/mcp --header "Authorization: Bearer {KEY}"'
    by_file = (
        f"curl -o ~/{FILE} {url}/{FILE}\n"
        f"claude mcp add --env SONDE_URL={url} --env SONDE_API_KEY={KEY} \\\n"
        f"  --transport stdio sonde -- python3 ~/{FILE}"
    )
    return Setup(
        "claude-code",
        "Claude Code",
        "One command in a terminal. “--scope user” before the name makes it known in all your projects.",
        (Snippet("Over HTTP", "shell", over_http), Snippet("Through sonde_mcp.py", "shell", by_file)),
        after="“/mcp” in a session shows whether it is connected.",
    )


def _claude_desktop(url: str) -> Setup:
    return Setup(
        "claude-desktop",
        "Claude Desktop",
        "It starts sonde_mcp.py: download the file, put its real path here, and merge this into the file of"
        " settings. A custom connector takes the address instead. It is called from the vendor's servers, so"
        " the portal must be on the internet with TLS, and the key needs the scope mcp:url.",
        (
            Snippet(
                "On this computer, through sonde_mcp.py",
                "json",
                _json({"mcpServers": {"sonde": _stdio(url)}}),
            ),
            Snippet("Remote, as a custom connector", "address", f"{url}/{KEY}/mcp"),
        ),
        places=(
            ("macOS", "~/Library/Application Support/Claude/claude_desktop_config.json"),
            ("Windows", r"%APPDATA%\Claude\claude_desktop_config.json"),
            ("Linux", "~/.config/Claude/claude_desktop_config.json"),
        ),
        after="Quit the app fully, from its menu or its icon in the tray, and open it again: closing the"
        " window is not enough. On Windows the command is “py” where “python3” is not known.",
    )


def _cursor(url: str) -> Setup:
    direct = {"url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}
    return Setup(
        "cursor",
        "Cursor",
        "For all your projects in the file below, for one in its .cursor/mcp.json.",
        (
            Snippet("Over HTTP", "json", _json({"mcpServers": {"sonde": direct}})),
            Snippet("Through sonde_mcp.py", "json", _json({"mcpServers": {"sonde": _stdio(url)}})),
        ),
        places=(
            ("macOS", "~/.cursor/mcp.json"),
            ("Windows", r"%USERPROFILE%\.cursor\mcp.json"),
            ("Linux", "~/.cursor/mcp.json"),
        ),
        after="Quit Cursor fully and open it again if the tools do not show in its settings.",
    )


def _vs_code(url: str) -> Setup:
    server = {
        "type": "http",
        "url": f"{url}/mcp",
        "headers": {"Authorization": "Bearer ${input:sonde-key}"},
    }
    asked = {"type": "promptString", "id": "sonde-key", "description": "Sonde key", "password": True}
    return Setup(
        "vs-code",
        "VS Code",
        "In a project it is .vscode/mcp.json; “MCP: Open User Configuration” opens the one for all. It asks"
        " for the key once, and keeps it out of the file.",
        (Snippet("Over HTTP", "json", _json({"servers": {"sonde": server}, "inputs": [asked]})),),
        places=(
            ("macOS", "~/Library/Application Support/Code/User/mcp.json"),
            ("Windows", r"%APPDATA%\Code\User\mcp.json"),
            ("Linux", "~/.config/Code/User/mcp.json"),
        ),
    )


def _chatgpt(url: str) -> Setup:
    return Setup(
        "chatgpt",
        "ChatGPT and other connectors",
        "Connectors on the web take an address and expect OAuth or nothing, which Sonde has not: choose no"
        " authentication and give the address with a key in it, made with the scopes mcp:url, research"
        " and chat. Who knows the address can use it. The portal must be on the internet with TLS.",
        (
            Snippet("Streamable HTTP", "address", f"{url}/{KEY}/mcp"),
            Snippet("Event streams, for older clients", "address", f"{url}/{KEY}/sse"),
        ),
    )


def _inspector(url: str) -> Setup:
    command = (
        f"npx @modelcontextprotocol/inspector --cli {url}/mcp --transport http \\\n"
        f'  --method tools/list --header "Authorization: Bearer {KEY}"'
    )
    return Setup(
        "inspector",
        "MCP Inspector",
        "Lists the tools in a terminal. It needs Node.js 22 or newer.",
        (Snippet("In a terminal", "shell", command),),
    )


def _curl(url: str) -> Setup:
    start = (
        f"curl {url}/v1/agent \\\n"
        f'  -H "Authorization: Bearer {KEY}" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        """  -d '{"input": "What is known about deep-sea mining?", "preset": "5m"}'"""
    )
    return Setup("curl", "curl", "Starts a research run.", (Snippet("In a terminal", "shell", start),))


def _openai(url: str) -> Setup:
    python = f"""from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="{KEY}")
run = client.responses.create(
    input="What is known about deep-sea mining?",
    extra_body={{"preset": "5m"}},
)
print(run.id, run.status)"""
    node = f"""import OpenAI from "openai";

const client = new OpenAI({{ baseURL: "{url}/v1", apiKey: "{KEY}" }});
const run = await client.responses.create({{
  model: "sonar-deep-research",
  input: "What is known about deep-sea mining?",
}});
console.log(run.id, run.status);"""
    return Setup(
        "openai",
        "OpenAI SDK",
        "Ask for run.id again until its status is completed.",
        (Snippet("Python", "python", python), Snippet("Node.js", "javascript", node)),
    )


def _perplexity(url: str) -> Setup:
    python = f"""from perplexity import Perplexity

client = Perplexity(base_url="{url}", api_key="{KEY}")
job = client.async_.chat.completions.create(
    request={{
        "model": "sonar-deep-research",
        "messages": [{{"role": "user", "content": "What is known about deep-sea mining?"}}],
    }}
)
print(job.id, job.status)"""
    node = f"""import Perplexity from "@perplexity-ai/perplexity_ai";

const client = new Perplexity({{ baseURL: "{url}", apiKey: "{KEY}" }});
const job = await client.async.chat.completions.create({{
  request: {{
    model: "sonar-deep-research",
    messages: [{{ role: "user", content: "What is known about deep-sea mining?" }}],
  }},
}});
console.log(job.id, job.status);"""
    return Setup(
        "perplexity",
        "Perplexity SDK",
        "Its asynchronous jobs are runs of the portal.",
        (Snippet("Python", "python", python), Snippet("Node.js", "javascript", node)),
    )


def _stdio(url: str) -> Mapping[str, Any]:
    return {"command": "python3", "args": [PATH], "env": {"SONDE_URL": url, "SONDE_API_KEY": KEY}}


def _json(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, indent=2)
