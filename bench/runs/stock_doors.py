"""S7's baseline: the same start behind a DRF view as one writes it, under Django's own ASGI handler.

DJANGO_SETTINGS_MODULE=bench.runs.stock uvicorn bench.runs.stock_doors:application
"""

from __future__ import annotations

from django.core.asgi import get_asgi_application

application = get_asgi_application()

from django.urls import path  # noqa: E402
from rest_framework.parsers import JSONParser  # noqa: E402
from rest_framework.renderers import JSONRenderer  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from portal.api.authentication import KeyAuthentication  # noqa: E402
from portal.services.principal import Principal  # noqa: E402
from portal.wire.fields import fields_of  # noqa: E402
from research.models.runs import Door  # noqa: E402
from research.protocol.agent import parse_run_request  # noqa: E402
from research.protocol.answer import as_started, build_response  # noqa: E402
from research.services.start import start_run  # noqa: E402
from research.services.views import view_of  # noqa: E402


class Start(APIView):
    authentication_classes = (KeyAuthentication,)
    parser_classes = (JSONParser,)
    renderer_classes = (JSONRenderer,)

    def post(self, request: Request) -> Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = parse_run_request(fields_of(request.data), headers)
        who = request.auth
        assert isinstance(who, Principal)
        started = start_run(who, asked, Door.REST)
        return Response(build_response(as_started(view_of(started.run))))


urlpatterns = [path("v1/agent", Start.as_view())]
