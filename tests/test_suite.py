"""The suite itself: which tests run in which pass, what is left out, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest

from tests import run
from tests.environment import ROOT

starts_processes = pytest.mark.slow

SAMPLE = """
import pytest

def test_plain(): pass

def test_browser(chromium_path): pass

def test_server(postgres_url): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.django_db
def test_database(): pass

@pytest.mark.django_db
@pytest.mark.embedded
def test_database_embedded(): pass

@pytest.mark.cluster
def test_cluster(): pass
"""


def collected(folder: Path, engine: str, *options: str) -> set[str]:
    """The names of the sample's tests that this pass would run."""
    sample = folder / "test_sample.py"
    sample.write_text(SAMPLE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        "pyproject.toml",
        "-p",
        "tests.conftest",
        "--collect-only",
        "-q",
        *options,
    ]
    servers = {
        "TEST_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "TEST_REDIS_URL": "redis://127.0.0.1:1",
    }
    environment = {"PATH": os.environ["PATH"], "SONDE_TEST_ENGINE": engine, **servers}
    done = subprocess.run(
        [*command, str(sample)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}


@starts_processes
def test_it_runs_everything_but_the_cluster_on_sqlite(tmp_path: Path) -> None:
    names = collected(tmp_path, "sqlite")

    assert names == {
        "test_plain",
        "test_browser",
        "test_server",
        "test_slow",
        "test_database",
        "test_database_embedded",
    }


@starts_processes
def test_it_runs_what_touches_the_database_again_on_postgresql(tmp_path: Path) -> None:
    assert collected(tmp_path, "postgres") == {"test_database", "test_cluster"}


@starts_processes
def test_it_leaves_slow_tests_servers_and_browsers_out_of_the_quick_run(tmp_path: Path) -> None:
    names = collected(tmp_path, "sqlite", "--quick")

    assert names == {"test_plain", "test_database", "test_database_embedded"}


@starts_processes
@pytest.mark.parametrize("workers", ["0", "2"])
def test_it_prints_what_it_left_out_without_a_browser(tmp_path: Path, workers: str) -> None:
    sample = tmp_path / "test_sample.py"
    sample.write_text("def test_browser(chromium_path): pass\ndef test_plain(): pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        "pyproject.toml",
        "-p",
        "tests.conftest",
        "-n",
        workers,
        "--no-browser",
    ]
    done = subprocess.run(
        [*command, str(sample)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "left out by --no-browser" in done.stdout
    assert "::test_browser" in done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ({"sqlite": 0, "postgres": 0}, 0),
        ({"sqlite": 1, "postgres": 0}, 1),
        ({"sqlite": 0, "postgres": 1}, 1),
        ({"sqlite": 0, "postgres": 5}, 0),
        ({"sqlite": 5, "postgres": 5}, 5),
        ({"sqlite": 0, "postgres": 2}, 2),
        ({"sqlite": 0, "postgres": -15}, 1),
    ],
)
def test_it_fails_when_any_pass_fails(results: dict[str, int], code: int) -> None:
    assert run.verdict(results) == code


def test_it_understands_paths_from_where_the_caller_stands() -> None:
    words = run.find_paths(["-x", "test_suite.py::test_it", "-k", "portal"], ROOT / "tests")

    assert words == ["-x", f"{ROOT}/tests/test_suite.py::test_it", "-k", "portal"]


class Echo(BaseHTTPRequestHandler):
    """Answers 404 with the method, one header and the body it got."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b" ".join([self.command.encode(), self.headers["X-Key"].encode(), body]))

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


def test_it_lends_a_curl_to_the_shell_examples(tmp_path: Path) -> None:
    folder = run.stand_in_for_curl(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        command = ["curl", "-s", "-X", "PUT", f"http://127.0.0.1:{server.server_port}/", "-H", "X-Key: a b"]
        done = subprocess.run(
            [*command, "-d", "{é}"], env={"PATH": str(folder)}, capture_output=True, text=True, check=True
        )
        server.shutdown()

    assert done.stdout == "PUT a b {é}"


@starts_processes
def test_it_leaves_no_server_behind_when_the_run_is_killed() -> None:
    script = (
        "import time\nfrom tests.services import running\n"
        "with running('valkey') as url:\n    print(url, flush=True)\n    time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    port = int(owner.stdout.readline().rpartition(":")[2].partition("/")[0])
    owner.send_signal(signal.SIGKILL)
    owner.communicate()

    assert is_free_soon(port)


def is_free_soon(port: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            time.sleep(0.05)
            continue
        return True
    return False


def pass_over(folder: Path, sample: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """What a pass over this one test file makes of it, and what it tells. Tests are named from the root."""
    own = ROOT / ".pytest_cache" / uuid4().hex
    own.mkdir(parents=True)
    file = own / "test_sample.py"
    file.write_text(sample)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        "pyproject.toml",
        "-p",
        "tests.conftest",
        "-q",
        str(file),
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "SONDE_TEST_FOLDER": str(folder),
        "TRACE": str(folder / "trace"),
    }
    try:
        code = run.run_pass("sqlite", command, environment)
    finally:
        shutil.rmtree(own)
    return code, capfd.readouterr().out


@starts_processes
def test_it_tries_what_failed_once_more_alone_and_tells(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fails_once = """
import os
from pathlib import Path

def test_first_time():
    trace = Path(os.environ["TRACE"])
    seen = trace.exists()
    trace.touch()
    assert seen

def test_fine(): pass
"""
    code, told = pass_over(tmp_path, fails_once, capfd)

    assert code == 0
    assert "passed alone, and deserve a look:" in told
    assert "test_first_time" in told.rpartition("deserve a look")[2]
    assert "1 passed" in told, "nothing else is tried again"


def decided(
    folder: Path, failures: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """What a pass comes to in which as many tests fail, alone as well; and what it tells."""

    def fail(engine: str, command: list[str], environment: dict[str, str]) -> int:
        failed = [f"tests/test_sample.py::test_{number}" for number in range(failures)]
        if "SONDE_TEST_FAILED" in environment:
            Path(environment["SONDE_TEST_FAILED"]).write_text("\n".join(failed))
        return run.FAILED

    monkeypatch.setattr(run, "run_tests", fail)
    code = run.run_pass("sqlite", ["pytest"], {"SONDE_TEST_FOLDER": str(folder)})
    return code, capfd.readouterr().out


def test_it_fails_for_what_fails_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, told = decided(tmp_path, 1, monkeypatch, capfd)

    assert code == 1
    assert "once more" in told
    assert "deserve a look" not in told


def test_it_tries_nothing_again_when_much_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, told = decided(tmp_path, run.MOST_AGAIN + 1, monkeypatch, capfd)

    assert code == 1
    assert "once more" not in told
