from __future__ import annotations

import socket

import pytest

from portal import http
from portal.running import server


def test_it_keeps_connections_for_longer_than_its_clients_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[server.Server] = []
    monkeypatch.setattr(server, "raise_open_files", lambda: None)
    monkeypatch.setattr(server.Server, "run", lambda self, sockets: made.append(self))
    with socket.socket() as listener:
        server.serve(listener)

    nginx = 60
    assert made[0].config.timeout_keep_alive > max(http.KEEP_SECONDS, nginx)
