"""The paths of the chat's pages (SPEC 10.22)."""

from __future__ import annotations

from django.urls import path

from proxy.pages import chat

urlpatterns = [
    path("chat", chat.new, name="chat"),
    path("chat/<uuid:conversation_id>", chat.conversation, name="conversation"),
    path("chat/<uuid:conversation_id>/live", chat.live, name="conversation-live"),
    path("chat/<uuid:conversation_id>/stop", chat.stop, name="conversation-stop"),
    path("chat/<uuid:conversation_id>/rename", chat.rename, name="conversation-rename"),
    path("chat/<uuid:conversation_id>/delete", chat.delete, name="conversation-delete"),
]
