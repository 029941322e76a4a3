"""`manage.py rotate_keys`: everything under the first key, at whatever point it was stopped."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings as installed
from django.core.management import CommandError, call_command
from django.db.models import TextField
from pytest_django.fixtures import Settings

from portal.management.commands.rotate_keys import reseal
from portal.models.audit import AuditEntry
from portal.models.system import Credential
from portal.running.secrets import SEALED
from portal.services import credentials, sealing
from portal.services.sealing import new_key

pytestmark = pytest.mark.django_db

ROOT = Path(installed.BASE_DIR)
OLD = new_key().replace("k1:", "old:")
NEW = new_key().replace("k1:", "new:")


@pytest.fixture
def use_ring(settings: Settings) -> Iterator[Any]:
    def use(*keys: str) -> None:
        settings.SONDE_ENCRYPTION_KEYS = ",".join(keys)
        sealing.ring.cache_clear()

    yield use
    sealing.ring.cache_clear()


def store(name: str, text: str) -> None:
    row = Credential.objects.create(name=name)
    row.sealed = sealing.seal(text, row, "sealed")
    row.save()


def rotate() -> str:
    out = io.StringIO()
    call_command("rotate_keys", stdout=out)
    return out.getvalue().strip()


def test_it_brings_every_secret_under_the_first_key(use_ring: Any) -> None:
    use_ring(OLD)
    store("A", "secret of a")
    store("B", "secret of b")
    use_ring(NEW, OLD)

    assert rotate() == "key 'new': 2 sealed anew, 0 were already"

    use_ring(NEW)
    assert [credentials.read(name) for name in "AB"] == ["secret of a", "secret of b"]


def test_it_goes_on_where_it_was_stopped(use_ring: Any) -> None:
    use_ring(OLD)
    store("A", "secret of a")
    use_ring(NEW, OLD)
    store("B", "secret of b")

    assert rotate() == "key 'new': 1 sealed anew, 1 were already"
    assert rotate() == "key 'new': 0 sealed anew, 2 were already"


def test_it_passes_over_what_holds_nothing(use_ring: Any) -> None:
    use_ring(NEW, OLD)
    Credential.objects.create(name="EMPTY", standing="refused")

    assert rotate() == "key 'new': 0 sealed anew, 0 were already"


def test_it_passes_over_what_went_meanwhile() -> None:
    assert not any(reseal(Credential, "sealed", pk) for pk in (1, 2))


def test_it_knows_every_place_where_a_text_is_sealed() -> None:
    sources = (path for app in ("portal", "proxy", "research") for path in (ROOT / app).rglob("*.py"))
    sealing_calls = (re.findall(r'sealing\.seal\(.*, "(\w+)"\)', path.read_text()) for path in sources)
    names = {name for found in sealing_calls for name in found}
    fields = [(model, field) for model in apps.get_models() for field in model._meta.get_fields()]

    places = {(model, field.name) for model, field in fields if isinstance(field, TextField)}
    assert {place for place in places if place[1] in names} == set(SEALED)


def test_it_says_in_one_line_which_key_is_missing(use_ring: Any) -> None:
    use_ring(OLD)
    store("A", "secret of a")
    use_ring(NEW)

    with pytest.raises(CommandError, match=r"needs key 'old', .*; 0 were sealed anew before it$"):
        rotate()


def test_it_writes_down_what_it_did(use_ring: Any) -> None:
    use_ring(OLD)
    store("A", "secret of a")
    use_ring(NEW, OLD)

    rotate()

    assert AuditEntry.objects.get(action="secret.resealed").target.startswith("portal_credential:sealed:")
