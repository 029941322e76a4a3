"""A portal that dies under a background response answers it all the same when it is back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.proxy.responding import checked, records
from tests.running_server import RunningServer
from tests.sdk.test_chat import client_of, credits_of
from tests.sdk.test_research_stream import body_of, texts

pytestmark = [pytest.mark.slow, pytest.mark.embedded]
LONG: Any = {"model": "gpt", "input": "Why? [sandbox:duration=6] [sandbox:pieces=60]"}


def test_it_goes_on_where_it_was_when_the_whole_portal_is_killed(tmp_path: Path) -> None:
    with RunningServer(tmp_path, SANDBOX_SECONDS="0.5") as server:
        key = server.api_key
        before = credits_of(server, key)["balance"]
        with client_of(server, key) as client:
            stream = client.responses.create(**LONG, background=True, stream=True)
            seen: list[Any] = []
            for event in stream:
                seen.append(event)
                if event.type == "response.output_text.delta":
                    break
            stream.close()

            server.kill()
            server.start()

            id, last = seen[0].response.id, seen[-1].sequence_number
            rest: list[Any] = list(client.responses.retrieve(id, stream=True, starting_after=last))
            final = rest[-1]
            assert final.type == "response.completed"
            kept = client.responses.retrieve(id)
        assert texts(seen) + texts(rest) == final.response.output_text == kept.output_text
        assert [event.sequence_number for event in (*seen, *rest)] == list(range(len(seen) + len(rest)))
        whole = body_of(server, id)
        checked(whole)
        assert len(records(whole)) == len(seen) + len(rest)
        assert credits_of(server, key) == {"balance": round(before - 0.1, 4), "reserved": 0}
        assert server.manage("ledger_check").returncode == 0
