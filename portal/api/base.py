"""What every view under /api stands on: DRF, with our limits counted after our authentication."""

from __future__ import annotations

from typing import Any, cast

from rest_framework.request import Request
from rest_framework.views import APIView

from portal.services.limits import admit_request
from portal.services.principal import Principal


def caller(request: Request) -> Principal:
    """Whoever the authenticators of `portal.api.authentication` found."""
    return cast(Principal, request.auth)


class PortalView(APIView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.headers |= admit_request(caller(request)).headers
