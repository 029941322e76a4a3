"""What kind of answer to give: the one the view has, whatever `Accept` says.

SDKs ask for `application/json` also where they read a stream, and for `application/binary` where
they read a file (openai-compat §1.1); a 406 helps nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class FirstRenderer(DefaultContentNegotiation):
    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type or "application/json"
