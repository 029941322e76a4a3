"""Files as rows: room, owners, ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django import Settings

from portal.models.audit import AuditEntry
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, NotFound, TooLarge, Unavailable
from proxy.models.files import FilePiece, StoredFile
from proxy.protocol.file_form import FileWish
from proxy.protocol.files import FileView, Listing
from proxy.services import files
from proxy.services.files import MIB, Upload
from tests.proxy.chatting import chatter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def who() -> Principal:
    return chatter().principal


def keep(who: Principal, *pieces: bytes, name: str = "a.txt", **wish: object) -> FileView:
    upload = Upload(who)
    for piece in pieces or (b"text",):
        upload.add(piece)
    return upload.finish(FileWish(name, **wish))  # type: ignore[arg-type]  # what the test says


def test_it_gives_back_what_came_in_pieces(who: Principal) -> None:
    file = keep(who, b"one\0", b"two", b"\xff")

    assert b"".join(files.read_file(file.id)) == b"one\0two\xff"
    assert files.find_file(who, file.id) == file
    assert file.size == 8
    assert AuditEntry.objects.filter(action="file.created", target=f"file:{file.id}").exists()


def test_it_shows_nothing_of_a_file_that_is_on_its_way(who: Principal) -> None:
    upload = Upload(who)
    upload.add(b"half")

    with pytest.raises(NotFound):
        files.find_file(who, upload.file_id)
    assert files.read_piece(upload.file_id, 0) is None
    assert files.list_files(who, Listing()).files == []


def test_it_leaves_nothing_of_an_upload_that_is_dropped(who: Principal) -> None:
    upload = Upload(who)
    upload.add(b"half")

    upload.drop()

    assert not FilePiece.objects.exists()
    assert not StoredFile.objects.exists()


def test_it_takes_no_more_of_an_upload_that_was_given_up(who: Principal) -> None:
    upload = Upload(who)
    upload.add(b"half")
    StoredFile.objects.update(touched_at=timezone.now() - files.PATIENCE * 2)
    files.tidy_files()

    with pytest.raises(Unavailable):
        upload.add(b"the other half")

    assert not FilePiece.objects.exists()


def test_it_never_drops_a_file_that_is_there(who: Principal) -> None:
    upload = Upload(who)
    upload.add(b"whole")
    file = upload.finish(FileWish("a.txt"))

    upload.drop()

    assert files.find_file(who, file.id) == file


def test_it_is_deleted_with_its_bytes(who: Principal) -> None:
    file = keep(who)

    files.delete_file(who, file.id)

    assert not FilePiece.objects.exists()
    with pytest.raises(NotFound):
        files.delete_file(who, file.id)


def test_it_shows_others_nothing(who: Principal) -> None:
    file, stranger = keep(who), chatter().principal
    told = set()

    for identity in (file.id, uuid4(), None):
        for attempt in (files.find_file, files.delete_file):
            with pytest.raises(NotFound) as caught:
                attempt(stranger, identity)
            told.add(caught.value.encoded())
    assert len(told) == 1
    assert files.list_files(stranger, Listing()).files == []
    assert files.find_file(who, file.id) == file


def test_it_keeps_names_that_are_there_twice(who: Principal) -> None:
    assert keep(who).id != keep(who).id
    assert [file.filename for file in files.list_files(who, Listing()).files] == ["a.txt", "a.txt"]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_it_pages_through_all_of_them_in_either_order(who: Principal, order: str) -> None:
    kept = [keep(who, name=f"{number}.txt").id for number in range(5)]
    # Of one moment: the order then is the ids'.
    StoredFile.objects.filter(pk__in=kept[1:4]).update(created_at=timezone.now())
    seen, after = [], None

    while True:
        page = files.list_files(who, Listing(2, order, after))  # type: ignore[arg-type]  # one of the two
        seen += [file.id for file in page.files]
        if not page.has_more:
            break
        after = seen[-1]

    whole = [file.id for file in files.list_files(who, Listing(100, "asc")).files]
    assert seen == (whole if order == "asc" else whole[::-1])
    assert set(seen) == set(kept)


def test_it_lists_the_files_of_a_purpose(who: Principal) -> None:
    keep(who)
    picture = keep(who, purpose="vision")

    assert files.list_files(who, Listing(purpose="vision")).files == [picture]


def test_it_refuses_a_cursor_that_is_nobodys_or_anothers(who: Principal) -> None:
    for cursor in (uuid4(), keep(chatter().principal).id):
        with pytest.raises(BadRequest) as caught:
            files.list_files(who, Listing(after=cursor))
        assert caught.value.param == "after"


def test_it_keeps_room_for_others(who: Principal, settings: Settings) -> None:
    settings.FILES_USER_MIB, settings.FILES_TOTAL_MIB = 1, 2
    keep(who, b"x" * MIB)

    with pytest.raises(TooLarge) as caught:
        keep(who, b"x")

    assert caught.value.param == "file"
    keep(chatter().principal, b"x" * MIB)
    with pytest.raises(TooLarge):
        keep(chatter().principal, b"x")


def test_it_refuses_an_upload_for_which_there_is_no_room_before_it_comes(
    who: Principal, settings: Settings
) -> None:
    settings.FILES_USER_MIB = 1

    files.begin_upload(who, MIB)
    with pytest.raises(TooLarge):
        files.begin_upload(who, 2 * MIB)


def test_it_counts_what_is_on_its_way(who: Principal, settings: Settings) -> None:
    settings.FILES_USER_MIB = 1
    Upload(who).add(b"x" * MIB)

    with pytest.raises(TooLarge):
        Upload(who).add(b"x")


def test_it_is_exact_when_many_come_at_once(who: Principal, settings: Settings) -> None:
    settings.FILES_USER_MIB = 3

    def one(_: int) -> bool:
        try:
            Upload(who).add(b"x" * MIB)
        except TooLarge:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(8))) == 3


def test_it_forgets_a_file_when_its_time_is_over(who: Principal) -> None:
    file = keep(who, expires_seconds=3600)
    kept = keep(who)
    assert file.expires_at == file.created_at + timedelta(hours=1)

    StoredFile.objects.filter(pk=file.id).update(expires_at=timezone.now())

    assert files.list_files(who, Listing()).files == [kept]
    assert files.tidy_files() == 1
    assert FilePiece.objects.count() == 1


def test_it_gives_up_an_upload_that_stalls(who: Principal) -> None:
    stalled, alive = Upload(who), Upload(who)
    stalled.add(b"half")
    alive.add(b"half")
    StoredFile.objects.filter(pk=stalled.file_id).update(touched_at=timezone.now() - timedelta(minutes=16))

    assert files.tidy_files() == 1

    with pytest.raises(Unavailable):
        stalled.finish(FileWish("a.txt"))
    alive.finish(FileWish("a.txt"))


def test_it_keeps_files_until_they_are_deleted_unless_told_otherwise(
    who: Principal, settings: Settings
) -> None:
    file = keep(who)
    StoredFile.objects.filter(pk=file.id).update(created_at=timezone.now() - timedelta(days=8))
    assert files.tidy_files() == 0

    settings.RETENTION_DAYS = 7

    assert files.tidy_files() == 1
