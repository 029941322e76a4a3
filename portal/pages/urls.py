"""The paths of the portal's own pages (SPEC 10.22)."""

from __future__ import annotations

from django.urls import path

from portal.pages import connect, invite, keys, team

urlpatterns = [
    path("connect", connect.connect, name="connect"),
    path("sonde_mcp.py", connect.relay, name="connect-relay"),
    path("invite/<str:token>", invite.invite, name="invite"),
    path("keys", keys.keys, name="keys"),
    path("keys/<str:public_id>/rotate", keys.rotate, name="key-rotate"),
    path("keys/<str:public_id>/revoke", keys.revoke, name="key-revoke"),
    path("team", team.team, name="team"),
    path("team/leave", team.leave, name="team-leave"),
    path("team/members/<int:member>/role", team.change_role, name="member-role"),
    path("team/members/<int:member>/remove", team.remove, name="member-remove"),
    path("team/invitations/<int:invitation>/revoke", team.revoke, name="invitation-revoke"),
]
