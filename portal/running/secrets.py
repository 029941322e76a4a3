"""Every place where a sealed text stands: what doctor opens and `rotate_keys` seals anew."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Model, QuerySet

from portal.models.system import Credential
from proxy.models.accounts import WebAccount
from proxy.models.chats import Continuation
from proxy.models.research import DeepResearch
from proxy.models.responses import ChatResponse

SEALED: tuple[tuple[type[Model], str], ...] = (
    (Credential, "sealed"),
    (WebAccount, "jar"),
    (Continuation, "thread"),
    (ChatResponse, "thread"),
    (DeepResearch, "thread"),
)


def sealed_places() -> Iterator[tuple[type[Model], str, object]]:
    """Model, field and primary key of each."""
    for model, field in SEALED:
        for pk in holding(model, field).order_by("pk").values_list("pk", flat=True).iterator():
            yield model, field, pk


def holding(model: type[Model], field: str) -> QuerySet[Model]:
    """The rows that have a sealed text there; threads come and go all the time."""
    return model._default_manager.exclude(**{field: ""})
