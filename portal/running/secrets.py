"""Every place where a sealed text stands: what doctor opens and `rotate_keys` seals anew."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Model

from portal.models.system import Credential
from proxy.models.accounts import WebAccount
from proxy.models.chats import Continuation
from proxy.models.research import DeepResearch

SEALED: tuple[tuple[type[Model], str], ...] = (
    (Credential, "sealed"),
    (WebAccount, "jar"),
    (Continuation, "thread"),
    (DeepResearch, "thread"),
)


def sealed_places() -> Iterator[tuple[type[Model], str, object]]:
    """Model, field and primary key of each."""
    for model, field in SEALED:
        rows = model._default_manager.exclude(**{field: ""}).order_by("pk")
        for pk in rows.values_list("pk", flat=True).iterator():
            yield model, field, pk
