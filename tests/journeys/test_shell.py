"""The shell user's story: `manage.py research`, with a server and without one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_server import ROOT, RunningServer


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A portal that was up once and is not now."""
    folder = tmp_path_factory.mktemp("shell")
    with RunningServer(folder, SANDBOX_SECONDS="0.5", RESEARCH_POLL_SECONDS="0.2") as server:
        server.terminate()
        yield server


@pytest.fixture
def at_rest(portal: RunningServer) -> Iterator[RunningServer]:
    yield portal
    portal.close()


def ask(server: RunningServer, question: str, *options: str) -> subprocess.CompletedProcess[str]:
    return server.manage("research", question, "--preset", "2m", *options)


@pytest.mark.embedded
def test_it_researches_by_itself_when_no_server_runs(at_rest: RunningServer) -> None:
    done = ask(at_rest, "How do tides form?")
    assert done.returncode == 0, done.stderr
    assert "# Simulated report" in done.stdout
    assert "## Sources" in done.stdout
    assert "No research was made" in done.stdout
    assert "of about" in done.stderr


@pytest.mark.embedded
def test_it_lets_the_server_do_the_work_when_one_runs(at_rest: RunningServer) -> None:
    at_rest.start()
    done = ask(at_rest, "How do tides form?", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["usage"]["pocket_search"]["mode"]) == ("completed", "2m")


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("marker", "code", "words"),
    [("failed", 1, "failed"), ("incomplete", 3, "incomplete"), ("empty", 1, "report")],
)
def test_it_tells_the_outcome_by_its_exit_code(
    at_rest: RunningServer, marker: str, code: int, words: str
) -> None:
    done = ask(at_rest, f"Tides? [sandbox:{marker}]")
    assert done.returncode == code
    assert words in done.stderr
    assert bool(done.stdout) == (marker == "incomplete")
    assert done.stderr.splitlines()[-1].startswith("sonde: ")


@pytest.mark.embedded
@pytest.mark.parametrize(
    "arguments",
    [
        ("  ",),
        ("Tides?", "--preset", "35m"),
        ("Tides?", "--user", "nobody@example.org"),
        ("Tides?", "--out", "/nowhere/at/all.md"),
        ("Tides?", "--out", "/proc/tides.md"),
        ("Tides?", "--out", "/"),
    ],
)
def test_it_refuses_wrong_usage_in_one_line_and_starts_nothing(
    at_rest: RunningServer, arguments: tuple[str, ...]
) -> None:
    done = at_rest.manage("research", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("sonde: ")
    assert not done.stdout


@pytest.mark.embedded
def test_it_writes_the_report_to_a_file(at_rest: RunningServer, tmp_path: Path) -> None:
    out = tmp_path / "tides.md"
    done = ask(at_rest, "How do tides form?", "--out", str(out))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1] == "The report is completed: 8 sources. 1 credit was charged."
    assert out.read_text(encoding="utf-8").startswith("# Simulated report")


def launch(server: RunningServer, question: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "research", question, "--preset", "2m"],
        cwd=ROOT,
        env=server.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.embedded
def test_it_steps_in_when_the_command_whose_worker_it_used_has_ended(at_rest: RunningServer) -> None:
    first = launch(at_rest, "Tides? [sandbox:duration=0.5]")
    second = launch(at_rest, "Currents? [sandbox:duration=9]")
    for process in (first, second):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "# Simulated report" in out


@pytest.mark.embedded
def test_it_leaves_the_run_alone_when_the_person_stops_watching(at_rest: RunningServer) -> None:
    at_rest.start()
    with launch(at_rest, "Tides? [sandbox:duration=3]") as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "goes on while a server is up" in said
