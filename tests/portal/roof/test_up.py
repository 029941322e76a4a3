"""`manage.py up` as its operator meets it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.running_server import RunningServer

pytestmark = pytest.mark.slow


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with RunningServer(tmp_path) as server:
        assert httpx.get(f"{server.url}/health/live").status_code == 200
        assert server.terminate() == 0
