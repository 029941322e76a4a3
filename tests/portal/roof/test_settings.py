"""The settings as a process meets them: each wrong variable stops it with one line."""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from portal.wire.version import VERSION
from tests.environment import ROOT, setting_names

CLUSTER = {
    "SONDE_MODE": "cluster",
    "DATABASE_URL": "postgresql://u:p@localhost/sonde",
    "REDIS_URL": "redis://localhost:6379/0",
}
# Read outside the settings: by the sandbox when it runs alone, and what no operator sets in .env.
READ_ELSEWHERE = {
    "SANDBOX_SECONDS",
    "SONDE_ENV_FILE",
    "SONDE_CRASH_AT",
    "DJANGO_SETTINGS_MODULE",
    "CELERY_SKIP_CHECKS",
}


starts_processes = pytest.mark.slow


def load(folder: Path, show: str = "'ok'", **environment: str) -> subprocess.CompletedProcess[str]:
    """Import the settings in a process of their own and print `show`."""
    return subprocess.run(
        [sys.executable, "-c", f"from portal import settings; print({show})"],
        cwd=ROOT,
        env={"PATH": os.defpath, "SONDE_ENV_FILE": "", "DATA_DIR": str(folder / "data"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


WRONG: list[tuple[dict[str, str], str]] = [
    ({"SONDE_MODE": "cloud"}, "SONDE_MODE: must be one of embedded, cluster, not 'cloud'"),
    ({"SONDE_UPSTREAM": "moon"}, "SONDE_UPSTREAM: must be one of auto, live, sandbox, not 'moon'"),
    ({"PORT": "http"}, "PORT: must be a whole number, not 'http'"),
    ({"PPLX_PROXY_PORT": "70000"}, "PPLX_PROXY_PORT: must be from 1 to 65535, not 70000"),
    ({"PUBLIC_URL": "sonde.example.org"}, "PUBLIC_URL: must be a URL"),
    ({"PUBLIC_URL": "https://example.org/sonde"}, "PUBLIC_URL: must be scheme://host"),
    ({"SECRET_KEY": "short"}, "SECRET_KEY: must have at least 50 characters"),
    ({"SONDE_ENCRYPTION_KEYS": "k1:short"}, "SONDE_ENCRYPTION_KEYS: the key 'k1'"),
    ({"PERPLEXITY_API_KEY_FILE": "/nowhere"}, "PERPLEXITY_API_KEY_FILE: cannot read /nowhere"),
    ({"PERPLEXITY_BASE_URL": "ftp://x"}, "PERPLEXITY_BASE_URL: must be a URL"),
    ({"RESEARCH_POLL_SECONDS": "often"}, "RESEARCH_POLL_SECONDS: must be a number, not 'often'"),
    ({"RETENTION_DAYS": "3"}, "RETENTION_DAYS: must be at least 7"),
    ({"RETENTION_DAYS": "1000000"}, "RETENTION_DAYS: must be from 0 to 36500"),
    ({"KEEPALIVE_HOURS": "inf"}, "KEEPALIVE_HOURS: must be from 0.1 to 8760"),
    ({"ALLOWED_HOSTS": "http://sonde.example.org"}, "ALLOWED_HOSTS: 'http://sonde.example.org' is more"),
    ({"ALLOWED_HOSTS": "a.example.org,b.example.org:81"}, "ALLOWED_HOSTS: 'b.example.org:81' is more"),
    ({"TRUSTED_PROXIES": "nginx"}, "TRUSTED_PROXIES: 'nginx' is neither"),
    ({"CORS_ORIGINS": "*"}, "CORS_ORIGINS: must be a URL"),
    ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL: must be one of"),
    ({"SANDBOX_PORT": "-1"}, "SANDBOX_PORT: must be from 0 to 65535"),
    ({"DATA_DIR": "/dev/null/data"}, "DATA_DIR: cannot make /dev/null/data"),
    ({**CLUSTER, "DATABASE_URL": ""}, "DATABASE_URL: is needed in cluster mode"),
    (
        {**CLUSTER, "DATABASE_URL": "mysql://h/n"},
        "DATABASE_URL: must be a URL that starts with postgresql://",
    ),
    ({**CLUSTER, "DATABASE_URL": "postgresql://host"}, "DATABASE_URL: names no database"),
    ({**CLUSTER, "DATABASE_URL": "postgresql://h:x/n"}, "DATABASE_URL: is not a URL"),
    ({**CLUSTER, "REDIS_URL": ""}, "REDIS_URL: is needed in cluster mode"),
    ({**CLUSTER, "REDIS_URL": "localhost:6379"}, "REDIS_URL: must be a URL that starts with redis://"),
]
LOAD_EACH = """
import json, os, sys
from portal import settings
for name in [name for name in sys.modules if name.partition(".")[0] == "portal"]:
    del sys.modules[name]
for error, environment in json.load(sys.stdin):
    if (process := os.fork()):
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        continue
    os.dup2(os.open(error, os.O_WRONLY | os.O_CREAT), 2)
    os.environ.clear()
    os.environ.update(environment)
    from portal import settings
    os._exit(0)
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """Exit code and words of a process that loads the settings, for each of WRONG. One of them has loaded
    Django for all: it forks the others."""
    folder = tmp_path_factory.mktemp("wrong")
    usual = {"PATH": os.defpath, "SONDE_ENV_FILE": "", "DATA_DIR": str(folder / "data")}
    errors = [folder / f"{number}.txt" for number in range(len(WRONG))]
    each = [(str(error), usual | wrong) for error, (wrong, _) in zip(errors, WRONG, strict=True)]
    command = [sys.executable, "-uc", LOAD_EACH]
    loaded = subprocess.run(
        command, cwd=ROOT, env=usual, input=json.dumps(each), capture_output=True, text=True, check=True
    )
    codes = map(int, loaded.stdout.split())
    return [(code, error.read_text()) for code, error in zip(codes, errors, strict=True)]


@starts_processes
@pytest.mark.parametrize("number", range(len(WRONG)), ids=[next(reversed(wrong)) for wrong, _ in WRONG])
def test_it_stops_with_one_line_that_names_the_variable(stopped: list[tuple[int, str]], number: int) -> None:
    code, said = stopped[number]

    assert code == 1
    assert said.startswith(f"sonde: {WRONG[number][1]}")
    assert said.count("\n") == 1


@starts_processes
def test_it_makes_its_own_secrets_once_and_keeps_them_to_itself(tmp_path: Path) -> None:
    show = "settings.SECRET_KEY, settings.SONDE_ENCRYPTION_KEYS"

    first, second = load(tmp_path, show), load(tmp_path, show)

    assert first.stdout == second.stdout != ""
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in [tmp_path / "data", *(tmp_path / "data").iterdir()]
    }
    assert modes == {"data": 0o700, "secret.key": 0o600, "encryption.keys": 0o600}


@starts_processes
def test_it_makes_one_secret_when_many_start_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from portal import settings; print(settings.SECRET_KEY)"]
    environment = {"PATH": os.defpath, "SONDE_ENV_FILE": "", "DATA_DIR": str(tmp_path / "data")}

    processes = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]

    assert len({process.communicate()[0] for process in processes}) == 1


@starts_processes
def test_it_says_which_secret_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secret.key").touch()

    assert load(tmp_path).stderr.startswith("sonde: SECRET_KEY: ")


@starts_processes
def test_it_reads_the_file_of_settings_below_the_environment(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("PORT=8101\nRETENTION_DAYS=30\n")

    loaded = load(
        tmp_path, "settings.PORT, settings.RETENTION_DAYS", SONDE_ENV_FILE=str(tmp_path / "env"), PORT="8102"
    )

    assert loaded.stdout == "8102 30\n"


@starts_processes
@pytest.mark.parametrize("line", ['PORT="8101', "PORT 8101 = yes", "= 8101"])
def test_it_names_the_line_of_the_file_that_it_cannot_read(tmp_path: Path, line: str) -> None:
    (tmp_path / "env").write_text(f"# mine\n\nRETENTION_DAYS=30\n{line}\nHOST=::1\n")

    refused = load(tmp_path, SONDE_ENV_FILE=str(tmp_path / "env"))

    assert (refused.returncode, refused.stderr) == (
        1,
        f"sonde: {tmp_path / 'env'}: line 4 is not NAME=value\n",
    )


@starts_processes
def test_it_says_that_it_cannot_read_the_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "env").write_bytes(b"HOST=\xff\n")

    refused = load(tmp_path, SONDE_ENV_FILE=str(tmp_path / "env"))

    assert refused.stderr == f"sonde: {tmp_path / 'env'}: cannot be read as UTF-8 text\n"


@starts_processes
def test_it_finds_a_relative_data_folder_from_anywhere(tmp_path: Path) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "from portal import settings; print(settings.DATA_DIR)"],
        cwd=tmp_path,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "SONDE_ENV_FILE": "",
            "DATA_DIR": os.path.relpath(tmp_path / "kept", ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert loaded.stdout == f"{tmp_path / 'kept'}\n"


@starts_processes
@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"PPLX_PROXY_PORT": "9000"}, "http://127.0.0.1:9000"),
        ({"HOST": "0.0.0.0", "PORT": "81"}, "http://localhost:81"),
        ({"HOST": "::1"}, "http://[::1]:8000"),
        ({"PUBLIC_URL": "https://sonde.example.org/"}, "https://sonde.example.org"),
    ],
)
def test_it_knows_where_people_find_it(tmp_path: Path, environment: dict[str, str], url: str) -> None:
    assert load(tmp_path, "settings.PUBLIC_URL", **environment).stdout.strip() == url


@starts_processes
def test_it_hands_the_options_of_a_database_url_on(tmp_path: Path) -> None:
    url = "postgresql://me:p%40ss@db:6543/sonde?sslmode=require&keepalives_idle=60"
    show = "*map(settings.DATABASES['default'].get, ('USER', 'PASSWORD', 'HOST', 'PORT', 'NAME', 'OPTIONS'))"

    loaded = load(tmp_path, show, **{**CLUSTER, "DATABASE_URL": url})

    assert loaded.stdout.startswith("me p@ss db 6543 sonde {")
    assert "'sslmode': 'require'" in loaded.stdout
    assert "'keepalives_idle': '60'" in loaded.stdout, "what the operator says comes before our own"


@starts_processes
def test_it_has_the_certificate_of_the_broker_checked(tmp_path: Path) -> None:
    loaded = load(tmp_path, "settings.CELERY_BROKER_URL", **{**CLUSTER, "REDIS_URL": "rediss://broker/0"})

    assert loaded.stdout == "rediss://broker/0?ssl_cert_reqs=required\n"


@starts_processes
def test_it_passes_the_deployment_check_behind_https(tmp_path: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={
            "PATH": os.defpath,
            "SONDE_ENV_FILE": "",
            "DATA_DIR": str(tmp_path),
            "PUBLIC_URL": "https://sonde.example.org",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr


def test_it_lists_every_setting_in_the_example_and_no_other() -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    listed = set(re.findall(r"^#?\s?([A-Z][A-Z0-9_]+)=", example, re.MULTILINE))

    read = setting_names()
    assert listed == {name for name in read if name.removesuffix("_FILE") == name}


def test_it_reads_the_environment_in_one_place() -> None:
    """What else looks into it is known here by name, so that no setting escapes the example."""
    read: set[str] = set()
    for package in ("portal", "proxy", "research", "sandbox"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "environ" in text or "getenv" in text:
                read |= environment_reads(ast.parse(text))

    assert read <= READ_ELSEWHERE


def environment_reads(tree: ast.AST) -> set[str]:
    """Names given to os.environ.get, os.environ.setdefault, os.getenv and os.environ[…]."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.match(r"os\.(environ\.\w+|getenv)$", ast.unparse(node.func)):
            found |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            found |= {node.slice.value} if isinstance(node.slice, ast.Constant) else {ast.unparse(node.slice)}
    return {str(name) for name in found}


def test_it_has_one_version() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
