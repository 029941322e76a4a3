"""What bin/test runs: the suite on SQLite, then what touches the database again on PostgreSQL.

One PostgreSQL serves both passes and all workers; it ends with this process, however that ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.browser import BrowserError
from tests.install_browser import install_browser
from tests.install_node import NodeError, install_new_node, install_sdks
from tests.migrated import drop_template
from tests.services import ServiceError, running

ROOT = Path(__file__).resolve().parent.parent
PASSES = {"sqlite": "SQLite", "postgres": "PostgreSQL and Valkey"}
NOTHING_COLLECTED = 5
FAILED = 1
MOST_AGAIN = 10
"""Failures that may be accidents: more are none."""
CORES = os.cpu_count() or 1
AT_ONCE = CORES + 2
"""Much of the whole suite waits for the processes that it has started; the quick part never does."""
MEMORY = Path("/dev/shm")
ROOM = 2 * 1024**3
"""Bytes: many times what the files of a whole run have."""
# Without bytecode each of the hundreds of processes that tests start would compile the whole product again.
NOT_FOR_TESTS = {"DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE"}
PYTEST = (sys.executable, "-m", "pytest", "-c", "pyproject.toml")
TAKES_A_VALUE = ("-k", "-m", "-n", "-p", "-o", "-W")


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="bin/test",
        description="Run the tests on SQLite and on PostgreSQL with Valkey. Other arguments go to pytest.",
        epilog="TEST_DATABASE_URL and TEST_REDIS_URL name servers to use instead of those out of wheels; "
        "CHROME names the Chromium.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only pure code and services, for each save: no door, server, browser or process; a minute",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="leave the browser tests out, and say which"
    )
    parser.add_argument("--engine", choices=PASSES, action="append", help="only this pass")
    parser.add_argument("--from", dest="caller", default=str(ROOT), help=argparse.SUPPRESS)
    return parser.parse_known_args(arguments)


def find_paths(arguments: list[str], caller: Path) -> list[str]:
    """Paths as the caller's folder sees them; everything else, values of options included, as it is."""

    def is_path(word: str, before: str) -> bool:
        return before not in TAKES_A_VALUE and (caller / word.partition("::")[0]).exists()

    pairs = zip(arguments, ["", *arguments], strict=False)
    return [str(caller / word) if is_path(word, before) else word for word, before in pairs]


def pytest_command(options: argparse.Namespace, rest: list[str]) -> list[str]:
    command = [*PYTEST, "-n", str(CORES if options.quick else AT_ONCE), "--dist", "loadfile"]
    if options.quick:
        command.append("--quick")
    if options.no_browser:
        command.append("--no-browser")
    return [*command, *find_paths(rest, Path(options.caller))]


def environment_for_tests(options: argparse.Namespace, stack: ExitStack) -> dict[str, str]:
    """The servers and the browser, ready, told by environment."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_TESTS}
    folder = TemporaryDirectory(prefix="sonde-tests-", dir=roomy_memory(), ignore_cleanup_errors=True)
    environment["SONDE_TEST_FOLDER"] = environment["TMPDIR"] = stack.enter_context(folder)
    if options.quick:
        return environment
    if shutil.which("curl") is None:
        environment["PATH"] = f"{os.environ['PATH']}{os.pathsep}{stand_in_for_curl(Path(folder.name))}"
    if "TEST_DATABASE_URL" not in environment:
        environment["TEST_DATABASE_URL"] = stack.enter_context(running("postgres"))
    else:
        stack.callback(drop_template, environment["TEST_DATABASE_URL"], Path(folder.name))
    if not options.no_browser:
        environment |= install_browser()
    install_new_node()
    install_sdks()
    return environment


def roomy_memory() -> Path | None:
    """Where the tests' files need no disk: a thousand databases would each wait for it to write them."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return None
    holds_programs = not found.f_flag & os.ST_NOEXEC  # our curl is one
    return MEMORY if holds_programs and found.f_bavail * found.f_frsize >= ROOM else None


def stand_in_for_curl(folder: Path) -> Path:
    """A folder for PATH with our own `curl` in it."""
    print("sonde: no curl on this machine: a stand-in runs the shell examples", file=sys.stderr)
    program = folder / "bin" / "curl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tests/curl.py" "$@"\n')
    program.chmod(0o755)
    return program.parent


def run_pass(engine: str, command: list[str], environment: dict[str, str]) -> int:
    """The pass's exit code. A test that failed is tried once more, alone: what only a crowded machine broke
    is told, and decides nothing; what fails twice does."""
    print(f"sonde: tests on {PASSES[engine]}", flush=True)
    failed_list = Path(environment["SONDE_TEST_FOLDER"]) / f"failed-{engine}"
    code = run_tests(engine, command, {**environment, "SONDE_TEST_FAILED": str(failed_list)})
    failed = failed_list.read_text().splitlines() if code == FAILED and failed_list.exists() else []
    if not 0 < len(failed) <= MOST_AGAIN:
        return code
    print(f"sonde: {len(failed)} failed beside others; each is tried once more, alone", flush=True)
    again = run_tests(engine, [*PYTEST, "-n", "0", *failed], environment)
    if again == 0:
        print("sonde: passed alone, and deserve a look:", *failed, sep="\n  ", flush=True)
    return again


def run_tests(engine: str, command: list[str], environment: dict[str, str]) -> int:
    with subprocess.Popen(command, cwd=ROOT, env={**environment, "SONDE_TEST_ENGINE": engine}) as tests:
        try:
            return tests.wait()
        except SystemExit:
            tests.send_signal(signal.SIGINT)  # pytest takes its fixtures down and says how far it came
            raise
        except KeyboardInterrupt:
            tests.wait()  # Ctrl-C reached pytest as well
            raise


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A script's background job ignores Ctrl-C, and so would everything that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options, rest = parse(arguments)
    engines = options.engine or (["sqlite"] if options.quick else list(PASSES))
    command = pytest_command(options, rest)
    with ExitStack() as stack:
        try:
            environment = environment_for_tests(options, stack)
        except (ServiceError, NodeError) as error:
            print(f"sonde: {error}", file=sys.stderr)
            return 1
        except BrowserError as error:
            print(
                f"sonde: no Chromium for the browser tests: {error}; install one, set CHROME, "
                "or pass --no-browser to leave them out",
                file=sys.stderr,
            )
            return 1
        results = {engine: run_pass(engine, command, environment) for engine in engines}
    return verdict(results)


def verdict(results: dict[str, int]) -> int:
    """0 when every pass that ran tests passed, and at least one did."""
    words = {0: "passed", NOTHING_COLLECTED: "no test"}
    for engine, code in results.items():
        print(f"sonde: {PASSES[engine]}: {words.get(code, 'failed')}")
    if set(results.values()) == {NOTHING_COLLECTED}:
        return NOTHING_COLLECTED
    worst = next((code for code in results.values() if code not in words), 0)
    return worst if worst >= 0 else 1  # a pass that a signal ended


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
