"""A really running portal in the sandbox: chat works at once, and no rotated token is lost by a kill."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import warm_start
from tests.portal.roof.visitor import new_session
from tests.running_server import RunningServer

pytestmark = [pytest.mark.slow, pytest.mark.embedded]
RESTLESS = "sandbox-max-rotating-restless-evelyn"


def chat(server: RunningServer, **more: Any) -> httpx.Response:
    body = {"model": "gpt", "messages": [{"role": "user", "content": "Why is the sky blue?"}], **more}
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60)


def begin_and_kill(server: RunningServer) -> None:
    """An answer begins, and the process dies in the middle of it."""
    body = {
        "model": "gpt",
        "messages": [{"role": "user", "content": "Why? [sandbox:duration=20]"}],
        "stream": True,
    }
    headers = {"Authorization": f"Bearer {server.api_key}"}
    url = f"{server.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=60) as answer:
        lines = answer.iter_lines()
        while "content" not in next(lines):
            pass
        server.kill()


def page_of_accounts(server: RunningServer, path: str) -> str:
    cookies = {"sessionid": new_session(server)}
    answer = httpx.get(f"{server.url}/admin/proxy/webaccount/{path}", cookies=cookies, timeout=60)
    assert "sandbox" in answer.raise_for_status().text
    return answer.text


def test_chat_works_at_once_and_the_session_is_looked_after(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "portal") as server:
        answer = chat(server)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"]

        made = server.manage("create_api_key", server.email, "--name", "watch", "--scopes", "admin")
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        until = time.monotonic() + 30
        while time.monotonic() < until:
            (account,) = httpx.get(f"{server.url}/health", headers=headers).json()["accounts"]
            if account["checked_seconds_ago"] is not None and account["remaining_pro"] is not None:
                break
            time.sleep(0.2)

        assert (account["name"], account["tier"], account["health"]) == ("sandbox", "max", "active")
        assert account["remaining_pro"] is not None
        assert "sandbox-max-portal" not in server.output()


def test_a_token_that_is_rotated_by_every_answer_survives_kills_and_is_seen_nowhere(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "portal") as server:
        put = warm_start.run(["manage.py", "set_cookie"], server.environment, timeout=60, input=RESTLESS)
        assert "is signed in" in put.stdout, put.stderr
        for _ in range(3):
            begin_and_kill(server)
            server.start()

        answer = chat(server)
        assert answer.status_code == 200, answer.text

        refused = chat(server, messages=[{"role": "user", "content": "Why? [sandbox:web.forbidden]"}])
        assert refused.status_code == 502
        pages = [page_of_accounts(server, path) for path in ("", "1/change/", "1/history/")]
        server.terminate()
        kept = b"".join(path.read_bytes() for path in (server.folder / "data").glob("sonde.sqlite3*"))
        # What was put in is the beginning of every value that it was rotated to.
        places = (answer.text, refused.text, *pages, kept.decode("latin-1"))
        assert not any(RESTLESS in place or server.api_key in place for place in places)
        assert RESTLESS not in server.output()
