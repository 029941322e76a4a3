from __future__ import annotations

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction

from portal.models.teams import Team
from portal.services.transactions import insist, joined

NO_PAUSE = (0.0, 0.0, 0.0)


class Away:
    """A database that refuses some times before it does as it is told."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "written"


@pytest.mark.django_db(transaction=True)
def test_it_writes_when_the_database_is_back() -> None:
    write = Away(OperationalError("gone"), InterfaceError("closed"))
    assert insist(write, NO_PAUSE) == "written"
    assert write.tries == 3


@pytest.mark.django_db(transaction=True)
def test_it_gives_up_in_the_end() -> None:
    write = Away(*[OperationalError("gone")] * 9)
    with pytest.raises(OperationalError):
        insist(write, NO_PAUSE)
    assert write.tries == 4


@pytest.mark.django_db(transaction=True)
def test_it_repeats_no_other_error() -> None:
    write = Away(ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        insist(write, NO_PAUSE)
    assert write.tries == 1


@pytest.mark.django_db(transaction=True)
def test_it_does_not_repeat_half_of_somebodys_transaction() -> None:
    write = Away(OperationalError("gone"))
    with pytest.raises(OperationalError), transaction.atomic():
        insist(write, NO_PAUSE)
    assert write.tries == 1


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_it_writes_over_a_connection_that_broke() -> None:
    """The first try meets the broken one, the second has a new one."""
    connection.ensure_connection()
    assert connection.connection is not None
    connection.connection.close()
    insist(lambda: Team.objects.create(name="Tides"), (0.0,))
    assert Team.objects.filter(name="Tides").exists()


def write_and_fail() -> None:
    with joined():
        Team.objects.create(name="Tides")
    raise ValueError("no")


@pytest.mark.django_db(transaction=True)
def test_it_joins_a_transaction_and_dies_with_it() -> None:
    with pytest.raises(ValueError, match="no"), transaction.atomic():
        write_and_fail()
    assert not Team.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_opens_a_transaction_of_its_own_where_there_is_none() -> None:
    with pytest.raises(ValueError, match="no"):
        write_and_fail()
    assert Team.objects.exists()
