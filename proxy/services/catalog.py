"""The models on offer: rows of the database as the protocol's own `Model`, and how they change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from portal.services import audit
from portal.services.principal import Principal
from portal.services.rows import Select, among
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel
from proxy.protocol import model_table
from proxy.protocol.discovery import Report, upgraded
from proxy.protocol.model_table import SEED, MapUpdate, Model
from proxy.protocol.session import Tier
from proxy.services.accounts import pool, tier_of


@dataclass(frozen=True, slots=True)
class Priced:
    """A model, and the credits that an answer of it costs."""

    model: Model
    price: Decimal


def all_models() -> tuple[Model, ...]:
    return tuple(model_of(row) for row in ChatModel.objects.all())


@dataclass(frozen=True, slots=True)
class Offer:
    """What the portal can answer with at one moment: some models, and the highest tier of its accounts."""

    models: Mapping[str, Priced]
    tier: Tier

    def agrees(self, other: Offer, name: str) -> bool:
        """Whether a question for the model `name` is the same with either."""
        return self.tier == other.tier and self.models.get(name) == other.models.get(name)


def those_named(names: Collection[str]) -> Select:
    which, given = among("id", names)
    return Select(ChatModel, f"WHERE {which}", given)


def offer_of(rows: Iterable[ChatModel], accounts: Iterable[WebAccount]) -> Offer:
    """Some models, for questions that are looked at together; `accounts` are the pool's."""
    return Offer({row.pk: Priced(model_of(row), row.price) for row in rows}, tier_among(accounts))


def find_model(name: str, offer: Offer | None = None) -> Priced:
    """The model that a request names, if this pool may use it. Raises BadRequest, ModelNotAvailable."""
    offer = offer or offer_of(ChatModel.objects.filter(pk=name), pool())
    priced = offer.models.get(name)
    known = (priced.model,) if priced else all_models()
    model_table.resolve(known, name, offer.tier)
    assert priced is not None  # `resolve` refuses a name that is not known
    return priced


def pool_tier() -> Tier:
    """The highest tier of the enabled accounts: what the portal as a whole can answer (SPEC 10.23)."""
    return tier_among(pool())


def tier_among(accounts: Iterable[WebAccount]) -> Tier:
    tiers = [tier_of(account) for account in accounts if account.enabled and account.jar]
    order = WebAccount.Tier.values
    return max(tiers, key=order.index, default=cast(Tier, settings.ACCOUNT_TYPE))


def model_of(row: ChatModel) -> Model:
    tier = cast(Tier, row.tier)
    return Model(
        row.id, row.label, tier, row.preference, row.thinking, row.enabled, row.mode, custom=row.custom
    )


@transaction.atomic
def update_map(update: MapUpdate, actor: Principal) -> list[str]:
    """Change models by hand (proxy-contract §12); the ids that there are then.

    A thinking variant follows its preference. Without `merge`, models that are not named are gone.
    """
    if not update.merge:
        ChatModel.objects.exclude(pk__in=update.models).delete()
    rows = {
        row.pk: row for row in ChatModel.objects.select_for_update(no_key=True).filter(pk__in=update.models)
    }
    position = (ChatModel.objects.aggregate(last=Max("position"))["last"] or 0) + 1
    for name, (mode, preference) in update.models.items():
        row = rows.get(name) or ChatModel(pk=name, custom=True, preference=preference, position=position)
        if row.preference != preference:
            _prefer(row, preference)
        row.mode = mode
        row.save()
    names = list(ChatModel.objects.values_list("pk", flat=True))
    audit.record(actor, "models.changed", "models", changed=sorted(update.models), merge=update.merge)
    return names


@transaction.atomic
def apply_report(report: Report, actor: Principal | None) -> None:
    """Write down what a round of discovery found: new models, and successors of those that are gone."""
    for model in report.added:
        ChatModel.objects.get_or_create(pk=model.id, defaults=_columns(model))
    for name, (old, new) in report.upgraded.items():
        row = ChatModel.objects.select_for_update(no_key=True).filter(pk=name, preference=old).first()
        if row is not None:
            _prefer(row, new)
            row.save()
    if report.added or report.upgraded:
        changed = sorted([*report.upgraded, *(model.id for model in report.added)])
        audit.record(actor, "models.discovered", "models", changed=changed)


def missing_models() -> tuple[Model, ...]:
    """What the shipped table has and the database does not."""
    there = set(ChatModel.objects.values_list("pk", flat=True))
    return tuple(model for model in SEED if model.id not in there)


def _prefer(row: ChatModel, preference: str) -> None:
    moved = upgraded(model_of(row), preference)
    row.preference, row.thinking = moved.preference, moved.thinking


def _columns(model: Model) -> dict[str, object]:
    return {
        "label": model.label,
        "tier": model.tier,
        "mode": model.mode,
        "preference": model.preference,
        "thinking": model.thinking,
        "position": [one.id for one in SEED].index(model.id),
    }
