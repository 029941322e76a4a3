"""The chat's pages, through Django's client: what they show in every state, and to whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from portal.models.users import User
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel
from proxy.models.chats import ChatTurn, Conversation
from proxy.pages.shown import Step, step_of
from tests.portal.people import somebody
from tests.proxy.accounts import account, occupy
from tests.proxy.chatting import say
from tests.proxy.dialogues import ask, fresh, talk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
SCRIPT = {"accept": "application/json"}


@pytest.fixture
def user() -> User:
    account("one")
    return somebody()


@pytest.fixture
def client(user: User) -> Client:
    return logged_in(user)


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def form(message: str = "Why?", **fields: str) -> dict[str, str]:
    return {"form": str(uuid4()), "message": message, "model": "gpt", **fields}


def path_of(turn: ChatTurn) -> str:
    return f"/chat/{turn.conversation_id}"


def ended(turn: ChatTurn, state: str, **fields: Any) -> ChatTurn:
    ChatTurn.objects.filter(pk=turn.pk).update(
        state=state, lease_until=None, ended_at=timezone.now(), **fields
    )
    return fresh(turn)


def test_it_begins_a_chat_and_leads_to_it(client: Client) -> None:
    answer = client.post("/chat", form("Why are there tides?", thinking="on"))

    turn = ChatTurn.objects.get()
    assert (answer.status_code, answer.headers["location"]) == (302, path_of(turn))
    assert (turn.question, turn.model, turn.thinking, turn.door) == (
        "Why are there tides?",
        "gpt",
        True,
        "page",
    )
    page = client.get(path_of(turn)).text
    assert "Why are there tides?" in page
    assert "Waiting for a free worker." in page
    assert 'data-live="yes"' in page
    assert '<meta http-equiv="refresh"' in page


def test_it_tells_a_script_the_same(client: Client) -> None:
    first = client.post("/chat", form(), headers=SCRIPT).json()
    again = client.post(first["url"], form("And?"), headers=SCRIPT)

    assert first["live"]
    assert first["url"] == path_of(ChatTurn.objects.get())
    assert f'id="turn-{first["turn"]}"' in first["html"]
    assert again.status_code == 400
    assert "still being written" in again.json()["message"]


def test_it_shows_the_answer_with_chips_sources_and_cost(client: Client, user: User) -> None:
    turn = talk(user, "Why do rivers bend?")

    page = client.get(path_of(turn)).text

    anchor = f"source-{turn.pk.hex}-1"
    assert f'href="#{anchor}"' in page
    assert f'id="{anchor}"' in page
    assert "4 sources" in page
    assert "steps on the way" in page
    assert "0.1 credits" in page
    assert "Sandbox: simulated" in page
    assert "</sup>." in page
    assert "</sup> ." not in page
    assert "2026-03-14T" not in page
    assert 'data-live="no"' in page


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Searching: why rivers bend", Step("", "Searching: why rivers bend")),
        ("Found: [A [b] (c)](https://e.com/x)", Step("Found:", "A [b] (c)", "https://e.com/x")),
        ("Found: [Bad](javascript:alert)", Step("Found:", "Bad")),
        ("Reading: https://www.e.com/x", Step("Reading:", "e.com", "https://www.e.com/x")),
    ],
)
def test_it_leads_from_a_step_to_its_page(line: str, step: Step) -> None:
    assert step_of(line) == step


def test_it_tells_only_what_the_page_does_not_know(client: Client, user: User) -> None:
    turn = talk(user)
    live = f"{path_of(turn)}/live"

    told = client.get(live).json()
    same = client.get(live, {"after": told["mark"]}).json()

    assert not told["live"]
    assert "simulated answer" in told["html"]
    assert same == {"mark": told["mark"], "live": False}


def test_it_has_another_mark_whenever_something_moved(client: Client, user: User) -> None:
    turn = ask(user)
    live = f"{path_of(turn)}/live"
    marks = [client.get(live).json()["mark"]]
    for change in ({"seq": 1}, {"stop_asked_at": timezone.now()}):
        ChatTurn.objects.filter(pk=turn.pk).update(**change)
        marks.append(client.get(live).json()["mark"])
    ended(turn, "cancelled")
    marks.append(client.get(live).json()["mark"])

    assert len(set(marks)) == 4


def test_it_hides_everything_from_another_user(client: Client, user: User) -> None:
    turn = talk(user, "A secret question")
    stranger = logged_in(somebody())
    nowhere = f"/chat/{uuid4()}"

    for method, tail in [
        ("get", ""),
        ("get", "/live"),
        ("post", ""),
        ("post", "/stop"),
        ("post", "/delete"),
        ("post", "/rename"),
    ]:
        foreign = getattr(stranger, method)(path_of(turn) + tail, form())
        unknown = getattr(stranger, method)(nowhere + tail, form())
        assert foreign.status_code == unknown.status_code == 404, tail
    assert "A secret question" not in stranger.get("/chat").text
    assert stranger.get(f"/chat?before={turn.conversation_id}").status_code == 404


def test_it_stops_renames_and_deletes(client: Client, user: User) -> None:
    turn = ask(user)

    client.post(f"{path_of(turn)}/stop")
    assert "You stopped this answer." in client.get(path_of(turn)).text
    client.post(f"{path_of(turn)}/rename", {"title": "  Skies "})
    assert "<title>Skies · Sonde</title>" in client.get(path_of(turn)).text
    client.post(f"{path_of(turn)}/delete")

    assert client.get(path_of(turn)).status_code == 404
    assert "Skies" not in client.get("/chat").text
    assert ChatTurn.objects.filter(pk=turn.pk).exists()


@pytest.mark.parametrize(
    ("code", "message", "shown", "again"),
    [
        ("server_error", "The upstream broke off its answer.", "The upstream broke off its answer.", True),
        ("insufficient_quota", "x", "The quota is used up", False),
        ("context_length_exceeded", "Too long.", "Start a new one.", False),
    ],
)
def test_it_says_kindly_what_went_wrong(
    client: Client, user: User, code: str, message: str, shown: str, again: bool
) -> None:
    turn = ended(ask(user), "failed", error_code=code, error_message=message)

    page = client.get(path_of(turn)).text

    assert shown in page
    assert "It cost you nothing." in page
    assert ("Try again" in page) == again


def test_it_asks_again_once_for_one_button(client: Client, user: User) -> None:
    turn = ended(ask(user, "Once more?"), "failed")
    page = client.get(path_of(turn)).text
    fields = {
        name: page.split(f'name="{name}" value="')[-1].split('"')[0] for name in ("form", "message", "model")
    }
    assert fields["message"] == "Once more?"

    for _ in range(2):
        assert client.post(path_of(turn), fields).status_code == 302

    assert ChatTurn.objects.count() == 2


def test_it_tells_a_stop_from_a_restart(client: Client, user: User) -> None:
    turn = ended(ask(user), "cancelled", answer="Half", first_token_at=timezone.now())

    page = client.get(path_of(turn)).text

    assert "The answer was cut short" in page
    assert "It cost 0.1 credits." in page


def test_it_keeps_what_was_typed_when_it_refuses(client: Client) -> None:
    WebAccount.objects.update(retry_at=timezone.now() + timedelta(minutes=1))

    answer = client.post("/chat", form("My long question"))
    scripted = client.post("/chat", form("My long question"), headers=SCRIPT)

    assert answer.status_code == 503
    assert "My long question</textarea>" in answer.text
    assert scripted.json()["retry_after"] > 0


def test_it_names_the_next_step_where_no_account_can_answer(client: Client) -> None:
    WebAccount.objects.update(health="expired")
    assert "The Perplexity session has ended." in client.get("/chat").text

    WebAccount.objects.all().delete()
    page = client.get("/chat").text
    assert "No Perplexity account is connected." in page
    assert "data-unready" in page
    assert "/admin/proxy/webaccount/" in logged_in(somebody(admin=True)).get("/chat").text


def test_it_says_why_one_cannot_ask_without_credits() -> None:
    account("one")
    poor = logged_in(somebody(0))

    page = poor.get("/chat").text
    refused = poor.post("/chat", form(), headers=SCRIPT)

    assert '<div class="note warn" id="why-not" role="status">' in page
    assert "Choose a cheaper one" in page
    assert (refused.status_code, refused.json()["code"]) == (429, "insufficient_quota")


def test_it_offers_each_model_once_by_tier_with_its_price(client: Client) -> None:
    ChatModel.objects.filter(pk="opus").update(price=2)

    page = client.get("/chat").text

    assert page.count(">GPT-5.6 Terra</option>") == 1
    assert page.index("Every account") < page.index("Pro accounts") < page.index("Max accounts")
    assert 'value="opus" data-price="2" data-cost="2 credits an answer" data-thinks' in page
    assert 'value="auto" data-price="0" data-cost="free"' in page
    assert "Claude Haiku" not in page


def test_it_offers_no_model_that_the_pool_cannot_ask(client: Client) -> None:
    WebAccount.objects.update(tier="pro")

    page = client.get("/chat").text

    assert "Max accounts" not in page


def test_it_offers_what_was_used_last(client: Client, user: User) -> None:
    ended(ask(user, model="sonnet"), "failed")

    assert '<option value="sonnet"' in client.get("/chat").text
    assert " selected>Claude Sonnet 5</option>" in client.get("/chat").text


def test_it_pages_the_history(client: Client, user: User) -> None:
    for number in range(32):
        moment = timezone.now()
        Conversation.objects.create(user=user, title=f"Chat no. {number:02}", updated_at=moment)

    first = client.get("/chat").text
    last = Conversation.objects.get(title="Chat no. 02")
    second = client.get(f"/chat?before={last.pk}").text

    assert "Chat no. 31" in first
    assert "Chat no. 01" not in first
    assert f"?before={last.pk}" in first
    assert "Chat no. 01" in second
    assert "Chat no. 02" not in second


def test_it_writes_what_is_hostile_as_text(client: Client, user: User) -> None:
    turn = talk(
        user, f"<script>alert(1)</script> {say('<img src=x onerror=alert(1)> [x](javascript:alert(1))')}"
    )

    page = client.get(path_of(turn)).text

    assert "<script>alert" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page


def test_it_names_the_model_that_answered_instead(client: Client, user: User) -> None:
    turn = talk(user, "Why? [sandbox:web.substitute=gpt5_nano]")

    assert "Perplexity answered with GPT-5 Nano instead of GPT-5.6 Terra." in client.get(path_of(turn)).text


def test_it_tells_a_script_when_to_try_again(client: Client, user: User) -> None:
    occupy(WebAccount.objects.get(), user.pk, turns=8)

    refused = client.post("/chat", form(), headers=SCRIPT)

    assert refused.status_code == 503
    assert refused.json()["retry_after"] == 2


def test_it_takes_no_nul_into_the_database(client: Client) -> None:
    assert client.post("/chat", form("a\0b")).status_code == 302
    assert ChatTurn.objects.get().question == "ab"
    assert client.post("/chat", form(model="g\0x")).status_code == 400
