"""Bytes that are kept with responses and runs: whose room they take, when they are written, how they go."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from portal.services.principal import Principal
from portal.services.spool import Spool
from portal.wire.errors import BadRequest, RateLimited, TooLarge
from proxy.models.files import FilePiece, ResearchAttachment, StoredFile
from proxy.protocol.responses import parse_responses
from proxy.services import kept_files
from proxy.services.files import MIB, PATIENCE, read_file
from proxy.services.kept_files import drop_kept, hold, keep_bytes
from proxy.services.responses import open_response, queue_response
from tests.proxy.accounts import account
from tests.proxy.chatting import chatter

pytestmark = pytest.mark.django_db(transaction=True)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(MIB)


@pytest.fixture
def who() -> Principal:
    return chatter().principal


def keep(who: Principal, content: bytes = bytes(MIB)) -> UUID:
    return keep_bytes(who.user_id, "a.png", "image/png", Spool(content))


def older(who: Principal, content: bytes = bytes(MIB)) -> UUID:
    """One that nothing waits for any more."""
    kept = keep(who, content)
    StoredFile.objects.filter(pk=kept).update(touched_at=timezone.now() - PATIENCE * 2)
    return kept


def ids() -> set[UUID]:
    return set(StoredFile.objects.values_list("pk", flat=True))


def test_it_gives_back_what_was_kept(who: Principal) -> None:
    content = bytes(range(256)) * 9000

    assert b"".join(read_file(keep(who, content))) == content


def test_it_makes_room_among_the_users_own_only(who: Principal, settings: Settings) -> None:
    settings.FILES_USER_MIB, settings.FILES_TOTAL_MIB = 2, 3
    others = older(chatter().principal)
    mine = [older(who) for _ in range(4)]

    assert ids() == {others, *mine[2:]}


def test_it_pushes_nobody_else_out_where_everybody_has_no_room(who: Principal, settings: Settings) -> None:
    settings.FILES_USER_MIB, settings.FILES_TOTAL_MIB = 2, 2
    other = chatter().principal
    kept = {older(other), older(other)}

    with pytest.raises(TooLarge) as caught:
        keep(who)

    assert caught.value.param == "input"
    assert ids() == kept


def test_it_keeps_what_is_there_when_something_is_too_large_for_all_the_room(
    who: Principal, settings: Settings
) -> None:
    settings.FILES_USER_MIB = 1
    kept = keep(who)

    with pytest.raises(TooLarge):
        keep(who, bytes(MIB + 1))

    assert ids() == {kept}


def test_it_keeps_no_more_of_a_user_than_can_be_counted(
    who: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "MOST_KEPT", 3)
    kept = [older(who, b"x") for _ in range(5)]

    assert ids() == set(kept[2:])


def test_it_pushes_nothing_out_that_is_about_to_be_sent(who: Principal, settings: Settings) -> None:
    settings.FILES_USER_MIB = 2
    kept = {keep(who), keep(who)}

    with pytest.raises(TooLarge):
        keep(who)

    assert ids() == kept


def test_it_looks_at_no_more_files_than_have_to_go(
    who: Principal, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    keep(who, b"x")
    with django_assert_max_num_queries(8):
        keep(who, b"x")
    for _ in range(30):
        keep(who, b"x")
    with django_assert_max_num_queries(8):
        keep(who, b"x")


def test_it_drops_what_nobody_holds(who: Principal) -> None:
    held, dropped = keep(who, b"x"), keep(who, b"y")
    ResearchAttachment.objects.create(key=uuid4(), position=0, is_picture=True, file_id=held)

    drop_kept([held, dropped])

    assert ids() == {held}


def test_it_holds_nothing_that_is_gone(who: Principal) -> None:
    kept = keep(who, b"x")
    StoredFile.objects.all().delete()

    with pytest.raises(BadRequest, match="attach it again"), transaction.atomic():
        hold([kept])


def stored(**fields: Any) -> Any:
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"
    said = [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]
    return parse_responses({"input": said, "model": "gpt", **fields}, default_model="gpt")


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("start", [open_response, queue_response])
def test_it_writes_bytes_before_anything_is_locked_that_others_wait_for(start: Callable[..., Any]) -> None:
    account()
    said: list[str] = []

    def listen(execute: Any, sql: str, *more: Any) -> Any:
        said.append(sql)
        return execute(sql, *more)

    with connection.execute_wrapper(listen):
        start(chatter().principal, stored(background=start is queue_response))

    pieces = [at for at, sql in enumerate(said) if sql.startswith('INSERT INTO "proxy_filepiece"')]
    locks = [
        at
        for at, sql in enumerate(said)
        if sql.startswith(('UPDATE "proxy_web', 'INSERT INTO "proxy_chatturn'))
    ]
    assert len(pieces) == 2
    assert locks
    assert max(pieces) < min(locks)


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("start", [open_response, queue_response])
def test_it_leaves_nothing_of_a_chat_that_does_not_start(start: Callable[..., Any]) -> None:
    account()

    with pytest.raises(RateLimited):
        start(chatter(credits=0).principal, stored(background=start is queue_response))

    assert not FilePiece.objects.exists()
