"""The models of the database, who may use them, and how they are changed by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pytest_django.fixtures import Settings

from portal.wire.errors import BadRequest
from proxy.models.catalog import ChatModel
from proxy.protocol.model_table import SEED, MapUpdate, ModelNotAvailable
from proxy.services import catalog
from proxy.services.catalog import find_model, update_map
from tests.portal.people import an_admin
from tests.proxy.accounts import account

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _in_the_sandbox(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "sandbox"


def test_a_new_installation_has_the_whole_table() -> None:
    assert catalog.all_models() == SEED
    assert find_model("auto").price == 0
    assert find_model("gpt").price == Decimal("0.1")


def test_the_pool_is_as_high_as_its_highest_enabled_account(settings: Settings) -> None:
    settings.ACCOUNT_TYPE = "pro"
    assert catalog.pool_tier() == "pro"

    account("free", tier="free")
    assert catalog.pool_tier() == "free"
    account("switched off", tier="max", enabled=False)
    assert catalog.pool_tier() == "free"
    account("max", tier="max")
    assert catalog.pool_tier() == "max"


def test_it_refuses_what_no_account_may_use() -> None:
    account(tier="pro")

    with pytest.raises(ModelNotAvailable):
        find_model("opus")
    with pytest.raises(ModelNotAvailable):
        find_model("haiku")
    with pytest.raises(BadRequest, match=r"Available: auto, sonar"):
        find_model("llama")


def test_models_change_by_hand() -> None:
    names = update_map(
        MapUpdate({"gpt": ("pro", "gpt57_terra"), "house": ("pro", "house1")}, merge=True), an_admin()
    )

    assert {"gpt", "house", "sonnet"} <= set(names)
    gpt, house = ChatModel.objects.get(pk="gpt"), ChatModel.objects.get(pk="house")
    assert (gpt.preference, gpt.thinking, gpt.custom) == ("gpt57_terra", "gpt57_terra_thinking", False)
    assert (house.preference, house.custom) == ("house1", True)


def test_without_merge_the_map_is_the_new_one() -> None:
    assert update_map(MapUpdate({"gpt": ("pro", "gpt56_terra")}, merge=False), an_admin()) == ["gpt"]
