"""The static files, from the process that serves the pages."""

from __future__ import annotations

from typing import BinaryIO

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise has no types
    """Answers with whole files. WhiteNoise hands over open ones, which Django would read to their end
    all the same before it sends the first byte over ASGI, and complain about it on the terminal."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        response = HttpResponse(_content(found.file), status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response


def _content(file: BinaryIO | None) -> bytes:
    if file is None:
        return b""
    with file:
        return file.read()
