"""An admin at work in the admin site, through its real pages."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.models.users import User
from tests.portal.people import somebody


class Site:
    def __init__(self) -> None:
        self.admin: User = somebody(1000, admin=True)
        self.client = Client()
        self.client.force_login(self.admin, backend="django.contrib.auth.backends.ModelBackend")

    def address(self, model: type[Model], page: str = "changelist", *ids: Any) -> str:
        return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=ids)

    def look(self, model: type[Model], page: str = "changelist", *ids: Any, **query: str) -> Any:
        return self.client.get(self.address(model, page, *ids), query)

    def queries(self, model: type[Model], page: str = "changelist", *ids: Any) -> int:
        """How many statements a page takes, with session and user."""
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert self.look(model, page, *ids).status_code == 200
        return len(captured)

    def act(self, action: str, *rows: Model, **data: Any) -> Any:
        """Choose rows, choose the action, go; `data` is the form in between."""
        data |= {"action": action, ACTION_CHECKBOX_NAME: [str(row.pk) for row in rows]}
        return self.client.post(self.address(type(rows[0])), data, follow=True)

    def add(self, model: type[Model], **data: Any) -> Any:
        return self.client.post(self.address(model, "add"), data, follow=True)

    def change(self, row: Model, **data: Any) -> Any:
        return self.client.post(self.address(type(row), "change", row.pk), data, follow=True)


def told(answer: Any) -> list[str]:
    """What the page says happened."""
    return [str(message) for message in answer.context["messages"]] if answer.context else []
