"""The JSON administration, as the seed's scripts call it (proxy-contract §12): with an `admin` key only.

It stands under `/admin/`, before Django's own site, and answers errors in the envelope as every API.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.auth import require_scope
from portal.api.authentication import KeyAuthentication
from portal.api.base import PortalView, caller
from portal.api.bodies import check_content_type, read_json
from portal.models.keys import Scope
from portal.services.errors import Invalid
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, TooLarge, Unauthenticated
from proxy.protocol import model_table
from proxy.protocol.session import LONGEST_IMPORT
from proxy.protocol.verdicts import problem_of
from proxy.services import catalog, discovery, sessions
from proxy.services.accounts import find_account

LARGEST_BODY = 1_048_576


class AdminView(PortalView):
    authentication_classes = (KeyAuthentication,)
    parser_classes = ()  # bodies are read here, strictly

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        require_scope(self.who, Scope.ADMIN.value)

    @property
    def who(self) -> Principal:
        return caller(self.request)

    def body(self) -> bytes:
        raw: bytes = self.request._request.body
        if len(raw) > LARGEST_BODY:
            raise TooLarge(f"The body is larger than {LARGEST_BODY:,} bytes.", code="payload_too_large")
        return raw

    def json(self) -> object:
        check_content_type(self.request.content_type or "", self.request.headers.get("content-encoding", ""))
        return read_json(self.body())


class ModelsView(AdminView):
    def get(self, request: Request) -> Response:
        tier = catalog.pool_tier()
        return Response(model_table.map_body(catalog.all_models(), settings.DEFAULT_MODEL, tier))


class UpdateModelsView(AdminView):
    def post(self, request: Request) -> Response:
        names = catalog.update_map(model_table.parse_update(self.json()), self.who)
        return Response({"status": "ok", "model_count": len(names), "models": names})


class RefreshCookieView(AdminView):
    """Takes `{"session_token": …}` or the cookie as plain text, and `account`, a name, to say whose."""

    def post(self, request: Request) -> Response:
        text, name = self._given()
        try:
            account = find_account(name) if name else None
            mine = sessions.put_cookie(text, account=account, actor=self.who)
        except sessions.SessionRefused as refused:
            if not refused.is_dead:
                raise problem_of(refused.fault) from None
            raise Unauthenticated(str(refused), param="session_token") from None
        except Invalid as error:
            param = "account" if error.field == "account" else "session_token"
            raise BadRequest(str(error), param=param) from None
        message = f"The session of {mine.name} was replaced."
        return Response({"status": "ok", "message": message, "models_loaded": len(catalog.all_models())})

    def _given(self) -> tuple[str, str]:
        """The cookie and the account's name. A body that was meant as JSON is never taken for a cookie."""
        text = self.body()[: LONGEST_IMPORT + 1].decode("utf-8", "replace").strip()
        name = self.request.query_params.get("account", "")
        if "json" not in (self.request.content_type or "") and text[:1] not in ("{", "["):
            if not text:
                raise BadRequest("Send the session token.", param="session_token")
            return text, name
        value = read_json(self.body())
        if not isinstance(value, dict):
            raise BadRequest("The body must be a JSON object.", param="session_token")
        token, name = value.get("session_token"), value.get("account", name)
        if not (isinstance(token, str) and token.strip()):
            raise BadRequest("session_token must be a string that is not empty.", param="session_token")
        if not isinstance(name, str):
            raise BadRequest("account must be a string.", param="account")
        return token, name


class DiscoverModelsView(AdminView):
    """Answers when the round is over: at once where the catalogue can be read, else after minutes."""

    def post(self, request: Request) -> Response:
        return Response(discovery.discover(manual=True, actor=self.who).body())


urlpatterns = [
    path("models", ModelsView.as_view()),
    path("update-models", UpdateModelsView.as_view()),
    path("refresh-cookie", RefreshCookieView.as_view()),
    path("discover-models", DiscoverModelsView.as_view()),
]
