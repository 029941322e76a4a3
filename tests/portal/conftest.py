from __future__ import annotations

from tests.proxy.conftest import sandbox, sandbox_process

__all__ = ["sandbox", "sandbox_process"]
