"""The paths that are served straight from ASGI (portal.asgi): `/v1` and `/health`, claimed whole, and what
`portal.wire.gateway` lists. Django has the rest (portal.urls)."""

from __future__ import annotations

from portal.api import health
from portal.api.lean import Doors
from proxy.api import chat, conversations, files, models
from proxy.api import sonar as sync_sonar
from proxy.services import health as proxy_health
from research.api import doors as research
from research.api import front
from research.api import sonar as async_sonar

pool = health.Feature(proxy_health.is_well, proxy_health.details)
doors = Doors(
    (
        *health.routes(pool),
        *chat.routes,
        *models.routes,
        *files.routes,
        *conversations.routes,
        *sync_sonar.routes,
        *front.routes,
        *research.routes,
        *async_sonar.routes,
    )
)
