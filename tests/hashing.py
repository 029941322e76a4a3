"""Passwords in the tests: as in life, but for the work that is to slow down whoever guesses."""

from __future__ import annotations

from django.contrib.auth.hashers import ScryptPasswordHasher


class QuickScrypt(ScryptPasswordHasher):
    """A sixty-fourth of the work, a quarter of a second less for each password."""

    work_factor = 2**8
    parallelism = 1
