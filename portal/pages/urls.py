"""The paths of the portal's own pages (SPEC 10.22)."""

from __future__ import annotations

from django.urls import path

from portal.pages import invite, keys

urlpatterns = [
    path("invite/<str:token>", invite.invite, name="invite"),
    path("keys", keys.keys, name="keys"),
    path("keys/<str:public_id>/rotate", keys.rotate, name="key-rotate"),
    path("keys/<str:public_id>/revoke", keys.revoke, name="key-revoke"),
]
