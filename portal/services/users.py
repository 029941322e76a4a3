"""People and teams: made, disabled, found. A new user has a team and an account from the start."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from decimal import Decimal

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.dispatch import Signal

from portal.models.teams import Membership, Team
from portal.models.users import User
from portal.services import audit, key_memory, ledger
from portal.services.errors import Invalid
from portal.services.names import is_fit
from portal.services.principal import Principal

FIRST_EMAIL = "admin@localhost"
FIRST_CREDITS = Decimal(1000)
FIRST_TEAM = "Team"

disabling = Signal()
"""Sent with `user` and `actor` in the transaction that disables a user: whoever works for them stops."""
before_disabling = Signal()
"""Sent with `user` before that, in the same transaction: receivers lock the rows of all that they will end.
Money is touched only then, since whoever ends one of them meanwhile locks its row first, too."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a caller may know of themselves; `team` is "" for those without one."""

    email: str
    name: str
    team: str
    balance: ledger.Balance


@transaction.atomic
def create_user(
    email: str,
    *,
    password: str | None = None,
    name: str = "",
    is_admin: bool = False,
    team: Team | None = None,
    role: str = Membership.Role.MEMBER,
    credits: Decimal | None = None,
    actor: Principal | None = None,
) -> User:
    """A user of `team` (else of the oldest one) with the plan's allowance, or exactly `credits`.

    Without a password the user cannot log in, only use keys. Raises Invalid: `email`, `password`.
    """
    email, name = checked_email(email), checked_name(name)
    if password is not None:
        check_password(password, User(email=email, name=name))
    try:
        with transaction.atomic():
            user = User.objects.create_user(
                email, password, name=name, is_staff=is_admin, is_superuser=is_admin
            )
    except IntegrityError:
        raise Invalid(f"{email} is a user already", "email") from None
    _furnish(user, team or first_team(), role, credits, actor)
    return user


def _furnish(user: User, team: Team, role: str, credits: Decimal | None, actor: Principal | None) -> None:
    """Team and account of a new user."""
    Membership.objects.create(user=user, team=team, role=role)
    ledger.open_account(user, credits=credits, actor_id=actor.user_id if actor else None)
    detail = {"email": user.email, "team": team.name, "admin": user.is_staff}
    audit.record(actor, "user.created", f"user:{user.pk}", **detail)


def furnish_superuser(sender: object, user: User, **signal: object) -> None:
    """Whom Django's `createsuperuser` made has what every new user has; the first admin, what that has."""
    is_first = not User.objects.filter(is_staff=True).exclude(pk=user.pk).exists()
    role = Membership.Role.LEAD if is_first else Membership.Role.MEMBER
    _furnish(user, first_team(), role, FIRST_CREDITS if is_first else None, None)


def ensure_first_admin(email: str = FIRST_EMAIL) -> tuple[User, str] | None:
    """The first admin, with a password to show once; None when there is an admin already."""
    if User.objects.filter(is_staff=True).exists():
        return None
    password = new_password()
    try:
        user = create_user(
            email, password=password, is_admin=True, role=Membership.Role.LEAD, credits=FIRST_CREDITS
        )
    except Invalid:
        if User.objects.filter(is_staff=True).exists():
            return None  # Another process was faster.
        raise
    return user, password


@transaction.atomic
def set_active(user: User, active: bool, *, actor: Principal | None) -> bool:
    """Disable a user, whose keys, sessions and work stop at once, or let them back in.

    False when nothing was to do. Raises Invalid for one's own account.
    """
    _not_oneself(user, actor)
    if not User.objects.filter(pk=user.pk, is_active=not active).update(is_active=active):
        return False
    user.is_active = active
    if not active:
        before_disabling.send(User, user=user)
        disabling.send(User, user=user, actor=actor)
    transaction.on_commit(key_memory.forget_all)
    audit.record(actor, "user.enabled" if active else "user.disabled", f"user:{user.pk}", email=user.email)
    return True


@transaction.atomic
def set_admin(user: User, is_admin: bool, *, actor: Principal | None) -> bool:
    """Make a user an admin, or a member again. False when nothing was to do.

    Raises Invalid for one's own account, so that an admin always remains.
    """
    _not_oneself(user, actor)
    changed = User.objects.filter(pk=user.pk, is_staff=not is_admin)
    if not changed.update(is_staff=is_admin, is_superuser=is_admin):
        return False
    transaction.on_commit(key_memory.forget_all)
    action = "user.made_admin" if is_admin else "user.made_member"
    audit.record(actor, action, f"user:{user.pk}", email=user.email)
    return True


@transaction.atomic
def reset_password(user: User, *, actor: Principal | None) -> str:
    """A new password, shown once; every session of the user ends."""
    password = new_password()
    user.set_password(password)
    user.save(update_fields=["password"])
    audit.record(actor, "user.login_reset", f"user:{user.pk}", email=user.email)
    return password


def find_or_make_team(name: str) -> Team:
    """Raises Invalid for a name that no team can have."""
    name = " ".join(name.split())
    if not 0 < len(name) <= 120 or not is_fit(name):
        raise Invalid("a team needs a name of 1 to 120 characters", "team")
    return Team.objects.get_or_create(name=name)[0]


def first_team() -> Team:
    """The team of those for whom none was named."""
    return Team.objects.order_by("pk").first() or find_or_make_team(FIRST_TEAM)


def account_of(user_id: int) -> Account:
    """Raises User.DoesNotExist."""
    row = User.objects.filter(pk=user_id).values_list("email", "name", "membership__team__name").get()
    email, name, team = row
    return Account(email, name, team or "", ledger.balance_of(user_id))


def find_user(email: str) -> User:
    """For operators, who name people by email. Raises Invalid."""
    user = User.objects.filter(email__iexact=email.strip()).first()
    if user is None:
        raise Invalid(f"no user has the email {email.strip()!r}", "email")
    return user


def new_password() -> str:
    return secrets.token_urlsafe(12)


def checked_email(email: str) -> str:
    email = email.strip().lower()
    try:
        validate_email(email)
        if not is_fit(email):  # between quotes, the rules of mail allow everything
            raise ValidationError("unfit")
    except ValidationError:
        raise Invalid(f"{email!r} is not an email address", "email") from None
    return email


def checked_name(name: str) -> str:
    name = " ".join(name.split())
    if len(name) > 120 or not is_fit(name):
        raise Invalid("a name has at most 120 characters", "name")
    return name


def _not_oneself(user: User, actor: Principal | None) -> None:
    if actor is not None and actor.user_id == user.pk:
        raise Invalid("you cannot do this to your own account")


def check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), "password") from None
