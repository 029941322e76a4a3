"""`manage.py rotate_keys`: bring every sealed secret under the first key of the ring.

Put the new key first in SONDE_ENCRYPTION_KEYS (or in DATA_DIR/encryption.keys), keep the old one
behind it, restart, run this, then take the old one away. It may be stopped and run again at any
time: each row is done or not done, and says by its key id which.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import Model

from portal.management.base import SpokenCommand
from portal.running.secrets import holding, sealed_places
from portal.services import audit, sealing


class Command(SpokenCommand):
    help = "Seal every stored secret anew with the first of SONDE_ENCRYPTION_KEYS."

    def handle(self, *args: Any, **options: Any) -> None:
        done = kept = 0
        try:
            for model, field, pk in sealed_places():
                moved = reseal(model, field, pk)
                done, kept = done + moved, kept + (not moved)
        except sealing.SealError as error:
            raise CommandError(f"{error}; {done} were sealed anew before it") from None
        self.stdout.write(f"key {sealing.ring().first_id!r}: {done} sealed anew, {kept} were already")


@transaction.atomic
def reseal(model: type[Model], field: str, pk: object) -> bool:
    """Whether there was something to do. Errors: sealing.SealError."""
    row = holding(model, field).select_for_update(no_key=True).filter(pk=pk).first()
    if row is None or sealing.is_current(getattr(row, field)):
        return False
    setattr(row, field, sealing.seal(sealing.unseal(row, field), row, field))
    row.save(update_fields=[field])
    audit.record(None, "secret.resealed", sealing.place(row, field), ring=sealing.ring().first_id)
    return True
