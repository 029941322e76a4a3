"""What every test stands on: a clean environment, one of two engines, real servers, a browser.

Which tests run where (bin/test makes both passes):
    sqlite     everything that is not marked `cluster`
    postgres   everything that touches the database and is not marked `embedded`, and what is marked `cluster`
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection, connections
from django.test import TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis
from pytest_django import DjangoDbBlocker
from xdist.remote import Producer

from tests import environment, warm_start
from tests.browser import BrowserError, find_chromium, find_node

environment.clean_environment()
environment.set_up_django()

from tests.database import keep_what_is_there, let_tests_put_the_database_back  # noqa: E402
from tests.migrated import copy_file, new_database  # noqa: E402
from tests.scheduling import FileByFile, in_order  # noqa: E402

let_tests_put_the_database_back()

DATABASE_FIXTURES = {"db", "transactional_db", "django_db_reset_sequences", "django_db_serialized_rollback"}
SERVER_FIXTURES = {
    *("postgres_url", "new_postgres_url", "valkey_url", "sandbox_process", "shared_server", "live_server"),
    "dial",
}
QUICK = 2
TESTS = Path(__file__).parent
PURE = {"protocol", "wire", "sandbox"}
"""Folders whose tests know no database."""
A_PORTAL_S = ("tests/journeys/", "tests/mcp/", "tests/crash/", "tests/sdk/")
"""Folders whose tests are a portal's, in a process of its own."""
DOORS = {"api", "pages", "admin", "mcp_tools", "management", "roof"}
"""Folders whose tests enter by a door, most with a key or a log-in: half the time of all that is not slow."""
left_out: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    hypothesis_profile(is_quick=config.getoption("--quick"))
    warm_start.forks.allow(environment.servers)
    if environment.ENGINE == "sqlite":
        # A test database need not outlive the machine.
        connection.settings_dict["OPTIONS"]["init_command"] += "; PRAGMA synchronous=OFF"


def hypothesis_profile(*, is_quick: bool) -> None:
    """Time limits would fail a property on a busy machine; CI tries the same examples each time."""
    in_ci = bool(os.environ.get("CI"))
    slow = [HealthCheck.too_slow]
    hypothesis.register_profile(
        "sonde", deadline=None, derandomize=in_ci, print_blob=True, suppress_health_check=slow
    )
    hypothesis.register_profile("quick", hypothesis.get_profile("sonde"), max_examples=20)
    hypothesis.load_profile("quick" if is_quick else "sonde")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-browser", action="store_true", help="leave the browser tests out, and say which")
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out doors, journeys, servers, browsers and `slow` tests",
    )


def touches_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("django_db"):
        return True
    if isinstance(item, pytest.Function) and item.cls and issubclass(item.cls, TransactionTestCase):
        return True
    return bool(DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ())))


def runs_here(item: pytest.Item) -> bool:
    """Whether this engine's pass is the one for the test."""
    if item.get_closest_marker("cluster"):
        return environment.ENGINE == "postgres"
    if environment.ENGINE == "sqlite":
        return True
    return touches_database(item) and not item.get_closest_marker("embedded")


def needs_browser(item: pytest.Item) -> bool:
    return "chromium_path" in getattr(item, "fixturenames", ())


def turn_of(item: pytest.Item) -> int:
    """0 for what starts processes of its own, 1 for what speaks to a server, 2 for what is quick."""
    if item.get_closest_marker("slow") or item.nodeid.startswith(A_PORTAL_S) or needs_browser(item):
        return 0
    return 1 if SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ())) else QUICK


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Reading all tests takes ten seconds: leave out whole folders, but none that is asked for by path."""
    if not collection_path.is_dir() or TESTS not in collection_path.parents:
        return None
    folder = f"tests/{collection_path.relative_to(TESTS)}/"
    if config.getoption("--quick") and (collection_path.name in DOORS or folder.startswith(A_PORTAL_S)):
        return True
    return (environment.ENGINE == "postgres" and collection_path.name in PURE) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if runs_here(item)]
    kept = here
    if config.getoption("--quick"):
        kept = [item for item in kept if turn_of(item) == QUICK]
    elif config.getoption("--no-browser"):
        kept = [item for item in kept if not needs_browser(item)]
        left_out.extend(item.nodeid for item in here if needs_browser(item))
    staying = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in staying])
    items[:] = in_order(kept, turn_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileByFile:
    return FileByFile(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the controller what this worker left out; end what this process started."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = left_out
    environment.servers.close()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    left_out[:] = getattr(node, "workeroutput", {}).get("left_out", left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if failed_list := os.environ.get("SONDE_TEST_FAILED"):
        reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
        Path(failed_list).write_text("\n".join(dict.fromkeys(report.nodeid for report in reports)))
    if left_out:
        terminalreporter.section("left out by --no-browser")
        terminalreporter.write_line("\n".join(left_out))


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A copy of what the migrations have made once for the whole run."""
    with ExitStack() as stack:
        if environment.ENGINE == "postgres":
            name = urlsplit(stack.enter_context(new_database())).path.removeprefix("/")
        else:
            # On a file as in life: in memory, threads would share one connection's locks.
            name = str(environment.process_folder() / "tests.sqlite3")
            copy_file(Path(name))
        settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = name
        with django_db_blocker.unblock():
            connection.close()
            keep_what_is_there()
        yield
        with django_db_blocker.unblock():
            connections.close_all()


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A real PostgreSQL, shared by the run: change nothing in its own database."""
    return environment.postgres_url()


@pytest.fixture
def new_postgres_url(postgres_url: str) -> Iterator[str]:
    """A new, migrated database in the run's PostgreSQL, dropped after the test."""
    with new_database() as url:
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> str:
    """A real Valkey of this worker. Tests that stop or flush one start their own `services.Valkey`."""
    return environment.valkey_url()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """A Chromium that runs. A test that asks for it is a browser test."""
    try:
        chromium, node = find_chromium(), find_node()
    except BrowserError as error:
        pytest.fail(str(error))
    if chromium is None or node is None:
        pytest.fail("no Chromium that runs: bin/test installs one; set CHROME to yours, or pass --no-browser")
    os.environ["PLAYWRIGHT_NODEJS_PATH"] = node
    return chromium
