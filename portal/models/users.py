"""People. They log in by email; there are no user names."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models, transaction
from django.db.models.functions import Lower
from django.dispatch import Signal
from django.utils import timezone

superuser_made = Signal()
"""Sent with `user` in the transaction in which Django's own `createsuperuser` makes somebody."""


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        with transaction.atomic(using=self._db):
            user = self.create_user(email, password, is_staff=True, is_superuser=True, **fields)
            superuser_made.send(User, user=user)
        return user

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__iexact=username)


class User(AbstractBaseUser, PermissionsMixin):
    """A member, or an admin when `is_staff`. Limits are off while null (SPEC 10.6)."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_staff = models.BooleanField("admin", default=False)
    is_active = models.BooleanField("active", default=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    parallel_runs = models.PositiveIntegerField(null=True, blank=True)
    chats_per_day = models.PositiveIntegerField(null=True, blank=True)

    objects: ClassVar[UserManager] = UserManager()

    EMAIL_FIELD = "email"
    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        app_label = "portal"
        ordering = ("email",)
        constraints = (models.UniqueConstraint(Lower("email"), name="user_email_once"),)

    def __str__(self) -> str:
        return self.email
