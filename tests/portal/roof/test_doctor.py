"""`manage.py doctor`: right when all is right, and by name when it is not."""

from __future__ import annotations

import io
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.data_folder import FolderLock
from portal.models.system import Credential, Heartbeat
from portal.models.users import User
from portal.running import checkup
from portal.running.checkup import Verdict, check_up
from portal.services import ledger_guard, sealing
from portal.services.credentials import PERPLEXITY_API_KEY
from tests.portal.listener import Listener
from tests.portal.people import somebody
from tests.proxy.accounts import account

pytestmark = pytest.mark.django_db
KEY = "pplx-a-stored-key-1234"


@pytest.fixture(autouse=True)
def _a_sound_portal(settings: Settings, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    settings.DATA_DIR = tmp_path
    settings.SONDE_UPSTREAM = "auto"
    somebody(admin=True)
    Heartbeat.objects.create(name="sweeper", at=timezone.now())


def a_stored_key() -> Credential:
    row = Credential.objects.create(name=PERPLEXITY_API_KEY, hint=KEY[-4:], standing="accepted")
    row.sealed = sealing.seal(KEY, row, "sealed")
    row.save()
    return row


def wrong() -> dict[str, str]:
    return {finding.topic: finding.text for finding in check_up() if finding.verdict is Verdict.WRONG}


def hints() -> dict[str, str]:
    return {finding.topic: finding.text for finding in check_up() if finding.verdict is Verdict.HINT}


def test_it_finds_nothing_wrong_with_a_sound_portal() -> None:
    assert wrong() == {}


def test_it_shows_no_secret(settings: Settings) -> None:
    a_stored_key()
    with Listener() as upstream:
        settings.PERPLEXITY_BASE_URL = upstream.url
        said = "\n".join(finding.text for finding in check_up())

    assert "…1234" in said
    assert KEY not in said
    assert not any(key.partition(":")[2] in said for key in settings.SONDE_ENCRYPTION_KEYS.split(","))


def test_it_tells_by_its_exit_code() -> None:
    call_command("doctor", stdout=io.StringIO())

    ledger_guard.remove()
    with pytest.raises(SystemExit) as exit:
        call_command("doctor", stdout=io.StringIO())
    assert exit.value.code == 1


def test_it_misses_the_triggers() -> None:
    ledger_guard.remove()

    assert "update of portal_ledgerentry" in wrong()["triggers"]


def test_it_misses_an_admin() -> None:
    User.objects.update(is_active=False)

    assert "no active admin" in wrong()["people"]


def test_it_sees_a_folder_that_others_may_enter(settings: Settings) -> None:
    Path(settings.DATA_DIR).chmod(0o755)

    assert f"chmod 700 {settings.DATA_DIR}" in wrong()["data folder"]


def test_it_sees_a_secret_file_that_others_may_read(settings: Settings) -> None:
    Path(settings.DATA_DIR).chmod(0o755)
    (Path(settings.DATA_DIR) / "encryption.keys").touch(0o644)
    texts = [f.text for f in check_up() if f.topic == "data folder" and f.verdict is Verdict.WRONG]

    assert any(text.endswith("encryption.keys") for text in texts)


@pytest.mark.cluster
def test_it_hears_a_silent_sweeper() -> None:
    Heartbeat.objects.update(at=timezone.now() - timedelta(minutes=1))

    assert "is silent" in wrong()["sweeper"]


@pytest.mark.cluster
def test_it_sees_a_broker_that_does_not_answer(settings: Settings) -> None:
    settings.REDIS_URL = "redis://:hunter22@127.0.0.1:9/0"

    assert "REDIS_URL does not answer" in wrong()["broker"]
    assert "hunter22" not in str(list(check_up()))


@pytest.mark.cluster
def test_it_sends_a_message_around_the_channel_layer() -> None:
    texts = [finding.text for finding in check_up() if finding.topic == "channel layer"]

    assert texts[0].startswith("a message came back after")


def test_it_asks_the_upstream_about_the_key(settings: Settings) -> None:
    a_stored_key()
    with Listener(status=401) as upstream:
        settings.PERPLEXITY_BASE_URL = upstream.url
        assert wrong()["upstream"] == f"{upstream.url} refuses the key …1234"


def test_it_sees_an_upstream_that_cannot_be_reached(settings: Settings) -> None:
    a_stored_key()
    settings.PERPLEXITY_BASE_URL = "http://127.0.0.1:9"

    assert wrong()["upstream"] == "http://127.0.0.1:9 cannot be reached (ConnectError)"


def test_it_repeats_why_a_new_key_was_not_taken_while_the_environment_gives_it(settings: Settings) -> None:
    row = a_stored_key()
    row.problem = "the new value in the environment was refused by it; the one before is still used"
    row.save()
    with Listener() as upstream:
        settings.PERPLEXITY_BASE_URL = upstream.url
        assert "upstream" not in wrong()

        settings.PERPLEXITY_API_KEY = "pplx-refused-key"
        assert wrong()["upstream"].startswith(
            "PERPLEXITY_API_KEY the new value in the environment was refused"
        )


def test_it_compares_the_clocks(settings: Settings) -> None:
    a_stored_key()
    with Listener(headers={"Date": formatdate(0, usegmt=True)}) as upstream:
        settings.PERPLEXITY_BASE_URL = upstream.url
        assert "from that of the upstream" in wrong()["upstream"]


def test_it_sees_a_secret_that_the_ring_does_not_open() -> None:
    Credential.objects.create(name="OTHER", sealed="gone:AAAA")

    assert "needs key 'gone'" in wrong()["encryption"]


def test_it_sees_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "LEAST_DISK", 2**60)

    assert "GiB free" in wrong()["disk"]


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"HOST": "0.0.0.0"}, "an address of this machine only"),
        (
            {"PUBLIC_URL": "http://sonde.example.org", "PUBLIC_HOST": "sonde.example.org"},
            "PUBLIC_URL is http",
        ),
        ({"SECURE": True}, "TRUSTED_PROXIES is empty"),
        ({"ALLOWED_HOSTS": ["*"]}, "ALLOWED_HOSTS is *"),
    ],
)
def test_it_hints_at_an_address_that_may_surprise(
    settings: Settings, changes: dict[str, object], hint: str
) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)

    assert hint in hints()["address"]
    assert wrong() == {}


@pytest.mark.embedded
def test_it_tells_the_address_of_the_portal_that_runs_and_not_that_of_the_settings(
    settings: Settings, tmp_path: Path
) -> None:
    def said() -> str:
        return next(finding.text for finding in check_up() if finding.topic == "address")

    running = FolderLock()
    running.take(tmp_path)
    assert said() == f"{settings.PUBLIC_URL}, listening on {settings.HOST}:{settings.PORT}"
    running.tell("0.0.0.0:8123", "http://localhost:8123")

    assert said() == "http://localhost:8123, listening on 0.0.0.0:8123"
    assert "an address of this machine only" in hints()["address"]

    running.free()
    assert said() == f"{settings.PUBLIC_URL}, listening on {settings.HOST}:{settings.PORT}"


def test_it_goes_on_when_one_look_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> checkup.Findings:
        raise OSError("sonde_abcdefghij_" + "x" * 43)

    monkeypatch.setitem(checkup.LOOKS, "mode", broken)

    assert wrong() == {"mode": "cannot be told: sonde_abcdefghij_***"}


def test_it_says_that_no_run_can_be_answered(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"

    assert hints()["upstream"] == "no run can be answered"


def test_it_knows_that_a_session_can_answer_runs(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"
    account(sandbox=False)

    assert "upstream" not in hints()
    said = [finding.text for finding in check_up() if finding.topic == "upstream"]
    assert said == ["Perplexity web sessions; there is no PERPLEXITY_API_KEY"]


def test_it_sees_an_endpoint_that_no_run_is_sent_to(settings: Settings) -> None:
    settings.RESPONSES_BACKEND_URL = "https://api.example/v1"
    said = [finding.text for finding in check_up() if finding.topic == "upstream"]
    assert "RESPONSES_BACKEND_URL is never asked: name responses in RESEARCH_BACKENDS" in said

    settings.RESEARCH_BACKENDS = ["responses"]
    assert "upstream" not in hints()
