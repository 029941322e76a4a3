from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from portal.models.teams import Invitation, Membership, Team
from portal.models.users import User
from portal.pages.team import PAGE
from portal.services.invitations import create_invitation, find_invitation
from tests.portal.people import a_team, an_admin, leads, somebody

pytestmark = pytest.mark.django_db
ACTIONS = ("members/{}/role", "members/{}/remove")


@pytest.fixture
def team() -> Team:
    return a_team(pool=50)


@pytest.fixture
def lead(team: Team) -> Client:
    user = somebody(team=team)
    leads(user)
    return client_of(user)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def member_of(team: Team) -> Membership:
    return Membership.objects.get(user=somebody(team=team))


def links_in(text: str) -> list[str]:
    return re.findall(r"/invite/([\w-]{43})", text)


def test_it_shows_members_and_pool_to_a_member_and_nothing_to_change(team: Team) -> None:
    member, colleague = member_of(team), member_of(team)
    stranger = member_of(a_team())
    create_invitation(an_admin(), team, email="coming@example.org")

    page = client_of(member.user).get("/team").text

    assert team.name in page
    assert "50 credits" in page
    assert colleague.user.email in page
    assert stranger.user.email not in page
    assert "coming@example.org" not in page
    assert page.count("<form") == 2  # logging out, and leaving


@pytest.mark.parametrize("path", ["team", *(f"team/{action}" for action in ACTIONS)])
def test_it_lets_a_mere_member_change_nothing(team: Team, path: str) -> None:
    member, colleague = member_of(team), member_of(team)

    answer = client_of(member.user).post("/" + path.format(colleague.pk), {"role": "lead"})

    assert answer.status_code == 403
    assert Membership.objects.filter(pk=colleague.pk, role="member").exists()
    assert not Invitation.objects.exists()


def test_it_invites_by_a_link_that_is_shown_once(team: Team, lead: Client) -> None:
    answer = lead.post("/team", {"email": "", "role": "lead"})

    (token,) = links_in(answer.text)
    invitation = find_invitation(token)
    assert invitation is not None
    assert (invitation.team, invitation.role) == (team, "lead")
    assert "no-store" in answer.headers["Cache-Control"]
    again = lead.get("/team").text
    assert not links_in(again)
    assert "Whoever has the link" in again
    assert token not in str(dict(lead.session.items())) + str(lead.cookies)


@pytest.mark.parametrize(
    ("wrong", "field"), [({"email": "nothing"}, "email"), ({"role": "king"}, "role")], ids=str
)
def test_it_says_beside_the_field_why_nobody_is_invited(
    lead: Client, wrong: dict[str, str], field: str
) -> None:
    answer = lead.post("/team", {"email": "ada@example.org", "role": "member", **wrong})

    assert answer.status_code == 400
    assert answer.context["errors"].keys() == {field}
    assert not Invitation.objects.exists()


def test_it_takes_an_invitation_back(lead: Client) -> None:
    (token,) = links_in(lead.post("/team", {"role": "member"}).text)

    answer = lead.post(f"/team/invitations/{Invitation.objects.get().pk}/revoke", follow=True)

    assert "is taken back" in answer.text
    assert Client().get(f"/invite/{token}").status_code == 404


def test_it_changes_a_role_and_removes(team: Team, lead: Client) -> None:
    member = member_of(team)

    said = lead.post(f"/team/members/{member.pk}/role", {"role": "lead"}, follow=True).text
    assert f"{member.user.email} leads the team now" in said
    said = lead.post(f"/team/members/{member.pk}/remove", follow=True).text
    assert f"{member.user.email} is no longer in the team" in said

    assert not Membership.objects.filter(pk=member.pk).exists()


def test_it_lets_a_member_leave_after_saying_what_that_means(team: Team, lead: Client) -> None:
    client = client_of(member_of(team).user)

    page = client.get("/team").text
    assert "lose the team’s pool of 50 credits" in page
    assert "The reports you shared are taken back" in page
    assert 'data-dialog="leave-dialog"' in page
    said = client.post("/team/leave", follow=True).text

    assert f"You are no longer in {team.name}." in said
    assert "You are in no team" in said
    assert client.post("/team/leave", follow=True).status_code == 200
    assert client.get("/team/leave").status_code == 405


def test_it_tells_the_only_lead_to_find_another_first(team: Team, lead: Client) -> None:
    assert 'action="/team/leave"' in lead.get("/team").text
    member_of(team)

    assert 'action="/team/leave"' not in lead.get("/team").text
    said = lead.post("/team/leave", follow=True).text
    assert said.count("You are the only lead: make somebody else a lead before you go") == 2
    assert Membership.objects.filter(team=team, role="lead").exists()


def test_it_says_why_nothing_was_changed(team: Team, lead: Client) -> None:
    own = Membership.objects.get(role="lead", team=team)

    said = lead.post(f"/team/members/{own.pk}/remove", follow=True).text
    assert "You cannot do this to yourself" in said
    said = lead.post(f"/team/members/{member_of(team).pk}/role", {"role": "king"}, follow=True).text
    assert "is no role" in said


@pytest.mark.parametrize("action", [*ACTIONS, "invitations/{}/revoke"])
def test_it_answers_for_another_team_as_for_what_is_not_there(lead: Client, action: str) -> None:
    other = a_team()
    kept = create_invitation(an_admin(), other)[0] if "invitations" in action else member_of(other)

    foreign, unknown = (lead.post(f"/team/{action.format(pk)}", {"role": "lead"}) for pk in (kept.pk, 10**30))

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    kept.refresh_from_db()
    assert kept.role == "member"


@pytest.mark.parametrize("action", [*ACTIONS, "invitations/{}/revoke"])
def test_it_changes_nothing_by_a_mere_look(team: Team, lead: Client, action: str) -> None:
    assert lead.get(f"/team/{action.format(member_of(team).pk)}").status_code == 405


def test_it_tells_somebody_without_a_team_what_to_do() -> None:
    admin, loner = somebody(admin=True), somebody()
    Membership.objects.filter(user__in=(admin, loner)).delete()

    page = client_of(loner).get("/team").text
    assert "You are in no team" in page
    assert admin.email in page
    assert "/admin/portal/membership/add/" in client_of(admin).get("/team").text
    assert client_of(loner).post("/team", {"role": "member"}).status_code == 403


def test_it_pages(team: Team, lead: Client, django_assert_max_num_queries: Callable[..., object]) -> None:
    people = User.objects.bulk_create(User(email=f"{place:03}@example.org") for place in range(PAGE + 1))
    Membership.objects.bulk_create(Membership(user=user, team=team) for user in people)

    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]  # a fixture without types
        first = lead.get("/team")
    second = lead.get("/team", {"after": first.context["more"]})

    assert first.context["members"][0].role == "lead"
    seen = [row.user_id for row in [*first.context["members"][1:], *second.context["members"]]]
    assert seen == [user.pk for user in people]
    assert not second.context["more"]
    assert {lead.get("/team", {"after": after}).status_code for after in ("x", "9" * 5000, "0")} == {404}


def test_it_shows_names_as_text(team: Team, lead: Client) -> None:
    User.objects.filter(pk=member_of(team).user_id).update(name="<script>alert(1)</script>")

    assert "<script>alert" not in lead.get("/team").text
