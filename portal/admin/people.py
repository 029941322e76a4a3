"""Users, teams, memberships and invitations in the admin site."""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.admin.base import AmountForm, KeptAdmin, PersonField, PortalAdmin, Secret, given, who
from portal.models.ledger import CreditAccount
from portal.models.teams import Invitation, Membership, Team
from portal.models.users import User
from portal.services.credits import grant_to_team, grant_to_user
from portal.services.errors import Invalid
from portal.services.invitations import check_room, create_invitation
from portal.services.ledger import balance_in
from portal.services.users import create_user, new_password, reset_password, set_active, set_admin
from portal.wire.amounts import plain

admin.site.site_header = admin.site.site_title = "Sonde administration"
admin.site.index_title = "The portal"
# Whoever comes to /admin/ logs in through the same pages, throttling included, as everybody.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]  # as allauth has it
admin.site.unregister([Group, EmailAddress])


class NewUserForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    team = forms.ModelChoiceField(Team.objects.all(), required=False, help_text="Empty: the oldest team.")
    credits = forms.DecimalField(
        required=False,
        min_value=0,
        decimal_places=4,
        help_text="Exactly so many instead of the plan's allowance.",
    )

    class Meta:
        model = User
        fields = ("email", "name", "is_staff")

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()


@admin.register(User)
class UserAdmin(KeptAdmin):
    list_display = ("email", "name", "team", "is_staff", "is_active", "credits_left", "created_at")
    list_filter = ("is_staff", "is_active", "membership__role")
    list_select_related = ("membership__team__pool", "credits__plan")
    search_fields = ("email", "name")
    ordering = ("email",)
    fields = (
        "email", "name", "team", "is_staff", "is_active", "credits_left", "credits_reserved",
        "requests_per_minute", "parallel_runs", "last_login", "created_at",
    )  # fmt: skip
    readonly_fields = (
        "team", "is_staff", "is_active", "credits_left", "credits_reserved", "last_login", "created_at"
    )  # fmt: skip
    actions = ("grant", "disable", "enable", "make_admin", "make_member", "set_new_password")

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        new = ("email", "name", "team", "is_staff", "credits")
        return super().get_fieldsets(request, obj) if obj else ((None, {"fields": new}),)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        return self.readonly_fields if obj else ()

    def get_form(
        self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(request, obj, change, **kwargs) if obj else NewUserForm

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if change:
            return super().save_model(request, obj, form, change)
        data, password = form.cleaned_data, new_password()
        made = create_user(
            data["email"], password=password, name=data["name"], is_admin=data["is_staff"],
            team=data["team"], credits=data["credits"], actor=who(request),
        )  # fmt: skip
        obj.pk, obj._state.adding = made.pk, False
        cast(Any, request).secret = Secret(f"Password of {made.email}", password)
        return None

    def response_add(
        self, request: HttpRequest, obj: User, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.show_once(request, "A new user", [cast(Any, request).secret])

    @admin.display(description="team", ordering="membership__team__name")
    def team(self, user: User) -> str:
        membership = getattr(user, "membership", None)
        return str(membership.team) if membership else "–"

    @admin.display(description="credits left")
    def credits_left(self, user: User) -> str:
        account = getattr(user, "credits", None)
        membership = getattr(user, "membership", None)
        pool = getattr(membership.team, "pool", None) if membership else None
        return plain(balance_in(account, pool).available) if account else "–"

    @admin.display(description="credits reserved")
    def credits_reserved(self, user: User) -> str:
        account: CreditAccount | None = getattr(user, "credits", None)
        return plain(account.reserved) if account else "–"

    @admin.action(description="Grant credits…")
    def grant(self, request: HttpRequest, users: QuerySet[User]) -> HttpResponse | None:
        form = AmountForm(given(request), initial={"once": uuid4()})
        if not form.is_valid():
            return self.ask_first(request, users, form, "Grant credits", "Grant")
        data = form.cleaned_data
        self.for_each(
            request,
            users,
            lambda user: grant_to_user(
                user, data["amount"], reason=data["reason"], actor=who(request), once=f"admin:{data['once']}"
            ),
            f"users were given {plain(data['amount'])} credits",
        )
        return None

    @admin.action(description="Disable: keys, sessions and runs stop at once")
    def disable(self, request: HttpRequest, users: QuerySet[User]) -> None:
        self.for_each(request, users, lambda user: set_active(user, False, actor=who(request)), "disabled")

    @admin.action(description="Enable again")
    def enable(self, request: HttpRequest, users: QuerySet[User]) -> None:
        self.for_each(request, users, lambda user: set_active(user, True, actor=who(request)), "enabled")

    @admin.action(description="Make admins")
    def make_admin(self, request: HttpRequest, users: QuerySet[User]) -> None:
        self.for_each(request, users, lambda user: set_admin(user, True, actor=who(request)), "made admins")

    @admin.action(description="Make members, who are no admins")
    def make_member(self, request: HttpRequest, users: QuerySet[User]) -> None:
        self.for_each(request, users, lambda user: set_admin(user, False, actor=who(request)), "made members")

    @admin.action(description="Set new passwords, shown once")
    def set_new_password(self, request: HttpRequest, users: QuerySet[User]) -> HttpResponse:
        actor = who(request)
        secrets = [Secret(user.email, reset_password(user, actor=actor)) for user in users]
        return self.show_once(request, "New passwords", secrets)


@admin.register(Team)
class TeamAdmin(PortalAdmin):
    list_display = ("name", "people", "pool_left", "created_at")
    list_select_related = ("pool",)
    search_fields = ("name",)
    fields = ("name", "pool_left", "created_at")
    readonly_fields = ("pool_left", "created_at")
    actions = ("grant", "invite")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        teams: QuerySet[Team] = super().get_queryset(request)
        return teams.annotate(people=Count("memberships"))

    def has_delete_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        """Only a team that holds nobody and nothing."""
        return obj is not None and not obj.memberships.exists() and getattr(obj, "pool", None) is None

    @admin.display(description="people", ordering="people")
    def people(self, team: Any) -> int:
        return int(team.people)

    @admin.display(description="credits in the pool")
    def pool_left(self, team: Team) -> str:
        pool = getattr(team, "pool", None)
        return plain(pool.own) if pool else "–"

    @admin.action(description="Grant credits to the pool…")
    def grant(self, request: HttpRequest, teams: QuerySet[Team]) -> HttpResponse | None:
        form = AmountForm(given(request), initial={"once": uuid4()})
        if not form.is_valid():
            return self.ask_first(request, teams, form, "Grant credits to pools", "Grant")
        data = form.cleaned_data
        self.for_each(
            request,
            teams,
            lambda team: grant_to_team(
                team, data["amount"], reason=data["reason"], actor=who(request), once=f"admin:{data['once']}"
            ),
            f"pools were given {plain(data['amount'])} credits",
        )
        return None

    @admin.action(description="Invite somebody: a link, shown once")
    def invite(self, request: HttpRequest, teams: QuerySet[Team]) -> HttpResponse | None:
        made: list[Secret] = []
        for team in teams:
            try:
                made.append(Secret(str(team), link(create_invitation(who(request), team)[1])))
            except Invalid as problem:
                self.message_user(request, f"{team}: {problem}", messages.WARNING)
        return self.show_once(request, "Invitations", made) if made else None


class NewMembershipForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    user = PersonField()

    class Meta:
        model = Membership
        fields = ("user", "team", "role")


@admin.register(Membership)
class MembershipAdmin(KeptAdmin):
    list_display = ("user", "team", "role", "created_at")
    list_filter = ("role",)
    list_select_related = ("user", "team")
    search_fields = ("user__email", "team__name")
    fields = ("user", "team", "role")

    def get_readonly_fields(self, request: HttpRequest, obj: Membership | None = None) -> Any:
        return ("user",) if obj else ()

    def get_form(
        self, request: HttpRequest, obj: Membership | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(request, obj, change, **kwargs) if obj else NewMembershipForm


@admin.register(Invitation)
class InvitationAdmin(PortalAdmin):
    """Made here, shown once; deleting one that waits takes it back."""

    list_display = ("team", "email", "role", "created_by", "created_at", "expires_at", "accepted_by")
    list_filter = ("role",)
    list_select_related = ("team", "created_by", "accepted_by")
    search_fields = ("email", "team__name", "created_by__email")
    fields = ("team", "email", "role")

    def has_change_permission(self, request: HttpRequest, obj: Invitation | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Invitation, form: Any, change: bool) -> None:
        made, token = create_invitation(who(request), obj.team, email=obj.email, role=obj.role)
        obj.pk, obj._state.adding = made.pk, False
        cast(Any, request).secret = Secret(str(made), link(token))

    def get_form(
        self, request: HttpRequest, obj: Invitation | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(request, obj, change, form=NewInvitationForm, **kwargs)

    def response_add(
        self, request: HttpRequest, obj: Invitation, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.show_once(request, "An invitation", [cast(Any, request).secret])


class NewInvitationForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    class Meta:
        model = Invitation
        fields = ("team", "email", "role")

    def clean_email(self) -> str:
        email = str(self.cleaned_data["email"]).lower()
        if email and Membership.objects.filter(user__email=email).exists():
            raise forms.ValidationError("They are in a team already.")
        return email

    def clean_team(self) -> Team:
        team: Team = self.cleaned_data["team"]
        try:
            check_room(team)
        except Invalid as problem:
            raise forms.ValidationError(str(problem).capitalize()) from None
        return team


def link(token: str) -> str:
    return settings.PUBLIC_URL + reverse("invite", args=[token])
