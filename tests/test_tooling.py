"""bin/up makes the environment it needs, whatever state it finds, on a machine with Python alone.

Each test has a small checkout of its own, in a folder with a space in its name: the real bin/, empty
requirement lists (nothing to download) and a manage.py that says what it was told.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.environment import ROOT

BASE = Path(sys.executable).resolve()
SHELL_TOOLS = ("cat", "dirname", "readlink", "sh")
pytestmark = pytest.mark.slow

Done = subprocess.CompletedProcess[str]
Start = Callable[..., Done]


def make_checkout(folder: Path) -> Path:
    shutil.copytree(ROOT / "bin", folder / "bin", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements.txt", "requirements-dev.txt", "constraints.txt"):
        (folder / name).write_text("# nothing\n")
    (folder / "manage.py").write_text("import sys\nprint(sys.argv[1:])\n")
    return folder


def make_machine(folder: Path) -> Path:
    """A PATH with the few tools that bin/ may count on and one Python, as `python3`."""
    folder.mkdir()
    for tool in SHELL_TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    (folder / "python3").symlink_to(BASE)
    return folder


def run_up(machine: Path, script: Path, *arguments: str, **variables: str) -> Done:
    """Start with nothing in the environment but that machine."""
    return subprocess.run(
        [str(machine / "sh"), str(script), *arguments],
        env={"PATH": str(machine), **variables},
        cwd=machine,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="session")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A checkout after its very first start, and what that said. Not to be changed."""
    folder = tmp_path_factory.mktemp("first")
    checkout = make_checkout(folder / "a sonde")
    machine = make_machine(folder / "machine")
    return checkout, run_up(machine, checkout / "bin" / "up", "--role", "web worker")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path / "machine")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Before its first start."""
    return make_checkout(tmp_path / "a sonde")


@pytest.fixture
def ready(first_start: tuple[Path, Done], tmp_path: Path) -> Path:
    """After its first start; moved to another place since, as people do."""
    folder = tmp_path / "a ready sonde"
    shutil.copytree(first_start[0], folder, symlinks=True)
    return folder


@pytest.fixture
def start(machine: Path) -> Start:
    """Run bin/up of a checkout."""

    def run(checkout: Path, *arguments: str, **variables: str) -> Done:
        return run_up(machine, checkout / "bin" / "up", *arguments, **variables)

    return run


def stand_in(machine: Path, script: str) -> None:
    """Another `python3` for the machine."""
    program = machine / "python3"
    program.unlink()
    program.write_text(f"#!{machine / 'sh'}\n{script}\n")
    program.chmod(0o755)


def test_it_makes_the_environment_and_hands_its_arguments_on(first_start: tuple[Path, Done]) -> None:
    checkout, done = first_start

    assert done.stdout == "['up', '--role', 'web worker']\n"
    assert (checkout / ".venv" / "bin" / "python").exists()


def test_it_says_what_it_does_when_that_takes_long(first_start: tuple[Path, Done]) -> None:
    _, done = first_start

    assert "making .venv" in done.stderr
    assert "installing requirements.txt" in done.stderr


def test_it_is_quiet_and_leaves_pip_alone_when_nothing_is_to_do(start: Start, ready: Path) -> None:
    shutil.rmtree(next(ready.glob(".venv/lib/python*/site-packages/pip")))

    done = start(ready)

    assert (done.stdout, done.stderr) == ("['up']\n", "")


def test_it_installs_again_when_a_list_has_changed(start: Start, ready: Path) -> None:
    (ready / "constraints.txt").write_text("# something else\n")

    assert "installing requirements.txt" in start(ready).stderr
    assert start(ready).stderr == ""


def test_it_finishes_what_a_kill_interrupted(start: Start, checkout: Path, machine: Path) -> None:
    command = [str(machine / "sh"), str(checkout / "bin" / "up")]
    first = subprocess.Popen(
        command, env={"PATH": str(machine)}, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (checkout / ".venv" / "unfinished").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()

    done = start(checkout)

    assert done.stdout == "['up']\n"
    assert "removing an unfinished or broken .venv" in done.stderr


def test_it_replaces_an_environment_whose_python_is_gone(start: Start, ready: Path) -> None:
    for program in ready.glob(".venv/bin/python*"):
        program.unlink()

    assert start(ready).stdout == "['up']\n"


def test_it_keeps_what_it_had_when_an_install_is_refused(start: Start, ready: Path) -> None:
    (ready / "requirements.txt").write_text("./no-such-folder\n")
    refused = start(ready)
    (ready / "requirements.txt").write_text("# nothing\n")

    again = start(ready)

    assert refused.returncode == 1
    assert "failed with exit code" in refused.stderr.splitlines()[-1]
    assert (again.stdout, again.stderr) == ("['up']\n", "")


def test_it_prepares_once_when_two_start_at_the_same_time(checkout: Path, machine: Path) -> None:
    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(machine / "sh"), str(checkout / "bin" / "up")],
            env={"PATH": str(machine)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    both = [begin(), begin()]
    results = [process.communicate(timeout=300) for process in both]

    assert [output for output, _ in results] == ["['up']\n", "['up']\n"]
    assert "".join(said for _, said in results).count("making .venv") == 1


def test_it_starts_through_a_chain_of_links_from_any_folder(ready: Path, machine: Path) -> None:
    (machine / "one").symlink_to(ready / "bin" / "up")
    (machine / "two").symlink_to("one")

    assert run_up(machine, machine / "two", CDPATH=str(machine)).stdout == "['up']\n"


def test_it_says_in_one_line_that_the_python_is_too_old(start: Start, checkout: Path, machine: Path) -> None:
    old = "import sys; sys.version_info = (3, 10, 4, 'final', 0); exec(sys.argv[1])"
    stand_in(machine, f'exec "{BASE}" -c "{old}" "$2"')

    done = start(checkout)

    assert done.returncode == 1
    assert done.stderr == (
        "sonde: Python 3.11 or newer is needed, but python3 is Python 3.10; set PYTHON to a newer one\n"
    )


def test_it_says_in_one_line_that_there_is_no_python(start: Start, checkout: Path, machine: Path) -> None:
    stand_in(machine, "exit 127")

    done = start(checkout)

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "none was found" in done.stderr


def test_it_names_the_package_that_brings_the_venv_module(
    start: Start, checkout: Path, machine: Path
) -> None:
    stand_in(machine, f'case "$*" in *ensurepip*) exit 1;; esac; exec "{BASE}" "$@"')

    done = start(checkout)

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3-venv" in done.stderr


def test_it_takes_the_python_it_is_told_to(start: Start, checkout: Path, machine: Path) -> None:
    stand_in(machine, "exit 127")

    assert start(checkout, PYTHON=str(BASE)).stdout == "['up']\n"


def test_it_takes_no_other_python_than_the_one_it_is_told_to(start: Start, checkout: Path) -> None:
    done = start(checkout, PYTHON="/no/such/python")

    assert done.returncode == 1
    assert done.stderr == (
        "sonde: PYTHON=/no/such/python does not run; set it to the path of Python 3.11 or newer\n"
    )


def test_it_says_in_one_line_that_it_cannot_make_the_environment(start: Start, checkout: Path) -> None:
    (checkout / ".venv").symlink_to("/proc/no-such-place")

    done = start(checkout)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("sonde: cannot make .venv: ")
    assert "Traceback" not in done.stderr


def test_it_says_no_more_than_a_line_when_it_is_stopped_while_it_waits(checkout: Path, machine: Path) -> None:
    held = os.open(checkout, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with subprocess.Popen(
        [str(machine / "python3"), "-I", "bin/prepare.py", "up"],
        cwd=checkout,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        assert "waiting" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)

        try:
            told = waiting.communicate(timeout=20)[1]
        finally:
            waiting.kill()
        assert waiting.returncode == 130
        assert told == "sonde: stopped; run it again to finish .venv\n"
    os.close(held)


@pytest.mark.parametrize(("sign", "code"), [("KeyboardInterrupt", 130), ("BrokenPipeError", 141)])
def test_it_ends_a_command_that_nobody_waits_for_without_a_trace(
    sign: str, code: int, tmp_path: Path
) -> None:
    package = tmp_path / "django" / "core"
    package.mkdir(parents=True)
    (tmp_path / "django" / "__init__.py").write_text("def setup(): pass\n")
    (package / "__init__.py").touch()
    (package / "management.py").write_text(f"def execute_from_command_line(argv): raise {sign}\n")

    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "doctor"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (code, "")


def test_it_asks_for_bin_up_when_django_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "manage.py"), "check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "run bin/up first" in done.stderr
