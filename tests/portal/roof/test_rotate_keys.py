"""`manage.py rotate_keys`: everything under the first key, at whatever point it was stopped."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from portal.models.audit import AuditEntry
from portal.models.system import Credential
from portal.services import credentials, sealing
from portal.services.sealing import new_key

pytestmark = pytest.mark.django_db

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
