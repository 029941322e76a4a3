"""The paths of the pages of research (SPEC 10.22)."""

from __future__ import annotations

from django.urls import path

from research.pages import ask, library, runs, sharing

urlpatterns = [
    path("", ask.ask, name="ask"),
    path("runs", runs.show_list, name="runs"),
    path("runs/<str:public_id>", runs.show_run, name="run"),
    path("runs/<str:public_id>/live", runs.show_changes, name="run-live"),
    path("runs/<str:public_id>/stop", runs.stop, name="run-stop"),
    path("runs/<str:public_id>/share", sharing.share, name="run-share"),
    path("runs/<str:public_id>/take-back", sharing.take_back, name="run-take-back"),
    path("library", library.show, name="library"),
    path("library/<uuid:item>/tag", library.change_tags, name="library-tag"),
    path("team/reports", sharing.show_shared, name="shared-reports"),
]
