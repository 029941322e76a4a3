"""Every quirk that the sandbox plays, in the order of the two references."""

from __future__ import annotations

from tests.quirks import api, web
from tests.quirks.row import Quirk, Unused

QUIRKS: tuple[Quirk, ...] = (*web.QUIRKS, *api.QUIRKS)
UNUSED: tuple[Unused, ...] = (*web.UNUSED, *api.UNUSED)
ROWS: tuple[Quirk | Unused, ...] = (*QUIRKS, *UNUSED)
