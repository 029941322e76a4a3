"""`manage.py validate URL`: health, models, errors, chat, stream and Responses of a running server.

The key comes from a file, SONDE_API_KEY or a hidden prompt, never an argument.
"""

from __future__ import annotations

import asyncio
import sys
from getpass import getpass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from portal.management.base import SpokenCommand
from portal.running.validation import Step, Validation
from portal.wire.conformance.checks import Result
from portal.wire.controls import in_one_line

LONGEST_KEY = 1_000
LONGEST_DETAIL = 500


class Command(SpokenCommand):
    help = (
        "Check whether OpenAI's clients get along with a running server; it asks four short questions. "
        "Exits with 1 when a check fails."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", metavar="URL", help="of the server, as in http://127.0.0.1:8000")
        parser.add_argument(
            "--key-file", metavar="F", type=Path, help="holds the key; default: SONDE_API_KEY"
        )
        parser.add_argument("--model", metavar="M", default="", help="default: auto, else the first listed")

    def handle(self, *args: Any, **options: Any) -> None:
        url = root_of(options["url"])
        validation = Validation(url, key_from(options["key_file"]), options["model"])
        results = asyncio.run(self.show(validation))
        failed = sum(result.failed for result in results)
        warned = sum(result.verdict == "WARN" for result in results)
        told = f"{len(results) - failed - warned} passed, {warned} warned, {failed} failed"
        if failed:
            raise CommandError(f"{url}: {told}")
        self.stdout.write(told)

    async def show(self, validation: Validation) -> list[Result]:
        """Each step as soon as it is known."""
        results: list[Result] = []
        async for step in validation.steps():
            self.stdout.write("\n".join(lines_of(step)))
            self.stdout.flush()
            results += step.results
        return results


def lines_of(step: Step) -> list[str]:
    return [step.name, *(f"  {_line(result)}" for result in step.results), ""]


def _line(result: Result) -> str:
    detail = f": {in_one_line(result.detail[:LONGEST_DETAIL])}" if result.detail else ""
    return f"{result.verdict} {result.id:4} {result.title}{detail}"


def root_of(url: str) -> str:
    """Without the `/v1` that SDKs want. Raises CommandError."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or parts.query or parts.fragment:
        raise CommandError("URL must be the address of a server, as in http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise CommandError("URL must not hold a password: the key comes from --key-file or SONDE_API_KEY")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def key_from(file: Path | None) -> str:
    """The key, trimmed. Raises CommandError, which never shows it."""
    key = _read(file) if file else settings.SONDE_API_KEY or _prompted()
    key = key.strip()
    if not key or len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise CommandError("the key is empty, or is none: one word of printable ASCII")
    return key


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(LONGEST_KEY + 100)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise CommandError(f"--key-file: {file}: {reason}") from None


def _prompted() -> str:
    if not sys.stdin.isatty():
        raise CommandError("there is no key: give --key-file, or set SONDE_API_KEY")
    return getpass("The API key (not shown): ")
