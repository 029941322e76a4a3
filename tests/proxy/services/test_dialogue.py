"""The dashboard's chats: let in once, answered by one worker, written down as they grow, stopped, kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

from portal.models.users import User
from portal.services import queue
from portal.services.ledger_check import check
from portal.wire.errors import BadRequest, NotFound, RateLimited, Unavailable
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn, Conversation
from proxy.services import answering, dialogue, settling
from tests.portal.people import somebody
from tests.proxy.accounts import account, occupy
from tests.proxy.chatting import say
from tests.proxy.dialogues import ask, fresh, me, spent, talk, wish
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture
def user() -> User:
    account("one")
    return somebody()


def in_a_worker(turn: ChatTurn) -> Callable[[], None]:
    """Starts to answer; the function that is returned waits for the end."""
    pool = ThreadPoolExecutor(1)

    def work() -> None:
        try:
            answering.answer_turn(turn.pk)
        finally:
            connections.close_all()

    answered = pool.submit(work)
    return lambda: answered.result(30)


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def test_it_answers_a_question_and_keeps_what_was_said(user: User) -> None:
    turn = talk(user, "Why do rivers bend?")

    assert turn.state == "delivered"
    assert turn.question == "Why do rivers bend?"
    assert "simulated answer" in turn.answer
    assert len(turn.sources) == 4
    assert turn.citations
    assert turn.reasoning
    assert turn.sandbox
    assert turn.conversation is not None
    assert turn.conversation.title == "Why do rivers bend?"
    assert spent(user) == "0.1 0"
    assert check() == []


def test_it_writes_the_answer_down_while_it_grows(user: User) -> None:
    turn = ask(user, "Why? [sandbox:duration=3]")
    wait = in_a_worker(turn)

    until(lambda: fresh(turn).answer)
    early = fresh(turn)
    wait()

    assert early.state == "open"
    assert 0 < len(early.answer) < len(fresh(turn).answer)
    assert fresh(turn).answer.startswith(early.answer)
    assert fresh(turn).seq > early.seq > 0


def test_it_goes_on_in_the_thread_of_the_last_answer(user: User, sandbox: SandboxServer) -> None:
    first = talk(user, f"One? {say('The first.')}")

    second = talk(user, "Two? [sandbox:recall]", first.conversation_id)

    assert "One?" in second.answer
    assert second.conversation_id == first.conversation_id
    assert Conversation.objects.get().updated_at > Conversation.objects.get().created_at


def test_it_sends_the_whole_talk_where_no_thread_is_left(user: User) -> None:
    first = talk(user, f"One? {say('The first answer.')}")
    WebAccount.objects.update(enabled=False)
    account("two")

    talk(user, "Two?", first.conversation_id)

    request = dialogue.request_of([fresh(first)], "Two?", "gpt", thinking=False)
    assert [message.role for message in request.messages] == ["user", "assistant", "user"]
    assert request.messages[1].text == "The first answer."


def test_it_leaves_out_questions_that_got_no_word_of_answer(user: User) -> None:
    failed = talk(user, "Why? [sandbox:web.invalid]")

    request = dialogue.request_of([failed], "Again?", "gpt", thinking=False)

    assert failed.state == "failed"
    assert [message.text for message in request.messages] == ["Again?"]


def test_it_asks_once_however_often_a_form_is_sent(user: User, sandbox: SandboxServer) -> None:
    twice = wish("Once?")

    first = dialogue.ask(me(user), twice)
    again = dialogue.ask(me(user), twice)

    assert first.pk == again.pk
    assert Conversation.objects.count() == 1
    assert spent(user) == "0 0.1"


def test_it_lets_one_worker_answer_of_many_that_are_rung(user: User, sandbox: SandboxServer) -> None:
    turn = ask(user, "Just one?")

    for wait in [in_a_worker(turn) for _ in range(4)]:
        wait()

    assert fresh(turn).state == "delivered"
    assert len(sandbox.web_requests("/rest/sse/perplexity_ask")) == 1


def test_it_takes_no_second_question_before_the_first_is_answered(user: User) -> None:
    turn = ask(user)

    with pytest.raises(BadRequest, match="still being written"):
        ask(user, "And?", turn.conversation_id)

    assert spent(user) == "0 0.1"


def test_it_stops_within_two_seconds_and_tells_the_upstream(user: User, sandbox: SandboxServer) -> None:
    turn = ask(user, "Why? [sandbox:duration=20]")
    wait = in_a_worker(turn)
    until(lambda: fresh(turn).answer)

    assert turn.conversation_id is not None
    began = time.monotonic()
    dialogue.stop(me(user), turn.conversation_id)
    until(lambda: fresh(turn).state != "open")
    took = time.monotonic() - began
    wait()

    assert took < 2
    stopped = fresh(turn)
    assert stopped.state == "cancelled"
    assert stopped.answer
    assert spent(user) == "0.1 0"
    assert len(sandbox.web_requests("/rest/sse/perplexity_terminate")) == 1


def test_it_charges_nothing_for_an_answer_stopped_before_its_first_word(user: User) -> None:
    turn = ask(user, "Why? [sandbox:web.first-frame=20]")
    wait = in_a_worker(turn)
    until(lambda: fresh(turn).claimed_at)

    assert turn.conversation_id is not None
    assert dialogue.stop(me(user), turn.conversation_id)
    wait()

    assert fresh(turn).state == "cancelled"
    assert spent(user) == "0 0"


def test_it_ends_at_once_what_no_worker_has_begun(user: User, sandbox: SandboxServer) -> None:
    turn = ask(user)

    assert turn.conversation_id is not None
    assert dialogue.stop(me(user), turn.conversation_id)
    answering.answer_turn(turn.pk)

    assert fresh(turn).state == "cancelled"
    assert spent(user) == "0 0"
    assert sandbox.web_requests("/rest/sse/perplexity_ask") == []
    assert not dialogue.stop(me(user), turn.conversation_id)


def died(turn: ChatTurn, answer: str = "") -> None:
    """Its worker is gone; this is how far it had come."""
    ago = timezone.now() - timedelta(seconds=1)
    told = ago if answer else None
    ChatTurn.objects.filter(pk=turn.pk).update(
        claimed_at=ago, lease_until=ago, answer=answer, first_token_at=told
    )


def test_it_keeps_and_charges_what_a_dead_worker_had_written(user: User) -> None:
    turn = ask(user)
    died(turn, "Half of an")

    settling.sweep_turns()

    assert (fresh(turn).state, fresh(turn).answer) == ("failed", "Half of an")
    assert spent(user) == "0.1 0"
    assert check() == []


def test_it_charges_nothing_for_a_dead_worker_that_had_written_nothing(user: User) -> None:
    turn = ask(user)
    died(turn)

    settling.sweep_turns()

    assert fresh(turn).state == "failed"
    assert spent(user) == "0 0"


def test_it_rings_again_for_what_no_worker_has_begun(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, begun = ask(user), ask(user, "Other?")
    ChatTurn.objects.filter(pk=begun.pk).update(claimed_at=timezone.now())
    bell = queue.Bell()
    rung: list[tuple[str, ...]] = []
    monkeypatch.setattr(bell, "ring", lambda task, *arguments: rung.append((task, *arguments)))
    monkeypatch.setattr(queue, "_bell", bell)
    before = fresh(waiting).lease_until

    answering.ring_waiting()

    after = fresh(waiting).lease_until
    assert rung == [("proxy.answer_turn", str(waiting.pk))]
    assert before is not None
    assert after is not None
    assert after > before


def test_it_keeps_nothing_of_a_question_that_is_not_let_in(user: User) -> None:
    poor = somebody(0)

    with pytest.raises(RateLimited) as refused:
        ask(poor)

    assert refused.value.code == "insufficient_quota"
    assert not Conversation.objects.exists()
    assert not ChatTurn.objects.exists()


def test_it_says_that_every_session_is_busy(user: User) -> None:
    occupy(WebAccount.objects.get(), user.pk, turns=8)

    with pytest.raises(Unavailable) as refused:
        ask(user)

    assert int(refused.value.headers["Retry-After"]) > 0
    assert not Conversation.objects.exists()


def test_it_refuses_what_is_too_long_or_nothing(user: User) -> None:
    with pytest.raises(BadRequest, match="96,001 characters; at most 96,000"):
        ask(user, "x" * 96_001)
    with pytest.raises(BadRequest, match="Write a message"):
        ask(user, " \r\n ")


def test_it_says_what_to_do_with_a_talk_that_has_become_too_long(user: User) -> None:
    first = talk(user, f"{'a' * 95_000} {say('Yes.')}")

    with pytest.raises(BadRequest, match=r"at most 96,000 can be sent\. Start a new chat\.") as refused:
        ask(user, "b" * 2_000, first.conversation_id)

    assert refused.value.code == "context_length_exceeded"


def test_it_ends_a_turn_whose_session_was_removed(user: User) -> None:
    turn = ask(user)
    WebAccount.objects.all().delete()

    answering.answer_turn(turn.pk)

    assert fresh(turn).state == "failed"
    assert "removed" in fresh(turn).error_message
    assert spent(user) == "0 0"


def test_it_shows_nobody_the_chats_of_another(user: User) -> None:
    turn = talk(user)
    other, chat = me(somebody()), turn.conversation_id
    assert chat is not None

    for act in (
        lambda: dialogue.ask(other, wish(), chat),
        lambda: dialogue.stop(other, chat),
        lambda: dialogue.rename(other, chat, "Mine"),
        lambda: dialogue.hide(other, chat),
        lambda: dialogue.ask(other, dialogue.Wish(turn.pk, "Mine?", "gpt")),
    ):
        with pytest.raises(NotFound):
            act()

    assert Conversation.objects.get().title == "Why is the sky blue?"


def test_it_hides_a_chat_and_stops_its_answer(user: User) -> None:
    turn = ask(user)
    assert turn.conversation_id is not None

    dialogue.hide(me(user), turn.conversation_id)

    assert fresh(turn).state == "cancelled"
    with pytest.raises(NotFound):
        ask(user, "Still there?", turn.conversation_id)


@pytest.mark.parametrize(
    ("text", "title"),
    [("Short", "Short"), ("Two\n\n lines ", "Two lines"), ("x" * 200, "x" * 119 + "…")],
)
def test_it_names_a_chat_by_its_first_words(text: str, title: str) -> None:
    assert dialogue.title_of(text) == title
