from __future__ import annotations

import pytest

from portal.models.audit import AuditEntry
from portal.services import audit
from portal.services.principal import Principal
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db
PLANTED = "sonde_abcdefghij_" + "S" * 43


def test_it_says_who_did_what_to_which_object_and_from_where() -> None:
    user = somebody()
    who = Principal(user.pk, frozenset(), key_public_id="abc", address="192.0.2.1", request_id="req_1")

    audit.record(who, "run.cancelled", "resp_1", reason="asked", count=2)

    entry = AuditEntry.objects.latest("id")
    assert (entry.actor_id, entry.key_id, entry.address) == (user.pk, "abc", "192.0.2.1")
    assert (entry.request_id, entry.action, entry.target) == ("req_1", "run.cancelled", "resp_1")
    assert entry.detail == {"reason": "asked", "count": 2}


def test_it_masks_secrets_wherever_they_stand() -> None:
    audit.record(None, "key.created", PLANTED, text=PLANTED, deep=[{"at": f"Bearer {PLANTED}"}], exact=1.5)

    entry = AuditEntry.objects.latest("id")
    assert "SSSS" not in f"{entry.target}{entry.detail}"
    assert entry.detail["text"] == "sonde_abcdefghij_***"


@pytest.mark.parametrize("name", ["password", "token", "key_secret", "Cookie", "digest"])
def test_it_refuses_details_that_are_secrets_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        audit.record(None, "key.created", "key:1", **{name: "x"})


@pytest.mark.parametrize("action", ["created", "Key.created", "key.", "key created"])
def test_it_takes_dotted_actions_only(action: str) -> None:
    with pytest.raises(ValueError, match="dotted"):
        audit.record(None, action, "key:1")


def test_it_cuts_a_long_target() -> None:
    audit.record(None, "key.created", "x" * 500)

    assert AuditEntry.objects.latest("id").target == "x" * 120
