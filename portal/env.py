"""Typed readers of environment variables; every error names its variable.

`Env` wraps a mapping, so tests and `.env` files need no process environment. Each secret
`NAME` may instead come from the file that `NAME_FILE` points to (SPEC 1.4). An empty value
counts as missing: `.env.example` lists names with nothing behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Word = TypeVar("Word", bound=str)

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


class EnvError(Exception):
    """A variable is missing or malformed. The text is one line and starts with its name."""


@dataclass(frozen=True, slots=True)
class Env:
    values: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        return self.values.get(name, "").strip() or default

    def secret(self, name: str, default: str = "") -> str:
        """The value of `name`, else the trimmed content of the file `NAME_FILE` names."""
        value = self.text(name)
        path = self.text(f"{name}_FILE")
        if value or not path:
            return value or default
        try:
            return Path(path).read_text(encoding="utf-8").strip() or default
        except (OSError, UnicodeDecodeError) as error:
            raise EnvError(f"{name}_FILE: cannot read {path}: {_reason(error)}") from None

    def choice(self, name: str, choices: tuple[Word, ...], default: Word) -> Word:
        """One of `choices`, in capitals or not."""
        value = self.text(name, default)
        for choice in choices:
            if value.lower() == choice.lower():
                return choice
        raise EnvError(f"{name}: must be one of {', '.join(choices)}, not {value!r}")

    def text_or_path(self, name: str) -> str:
        """A text, or the path of the file that holds it: what can only be a path has to be there."""
        value = self.text(name)
        looks_so = value.startswith(("/", "./", "../", "~/")) or value.endswith((".txt", ".md"))
        if looks_so and "\n" not in value and not Path(value).is_file():
            raise EnvError(f"{name}: there is no file {value}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name).lower()
        if not value:
            return default
        if value in TRUE or value in FALSE:
            return value in TRUE
        raise EnvError(f"{name}: must be true or false, not {value!r}")

    def integer(self, name: str, default: int, *, least: int | None = None, most: int | None = None) -> int:
        return int(self._number(name, default, least, most, whole=True))

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        """Mostly a time, which has an end: Python's own dates and times take no infinite one."""
        return self._number(name, default, least, most, whole=False)

    def words(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A comma-separated list, trimmed, without empty members."""
        found = tuple(word.strip() for word in self.text(name).split(",") if word.strip())
        return found or default

    def url(self, name: str, default: str = "", *, schemes: tuple[str, ...] = ("http", "https")) -> str:
        """An absolute URL without its trailing slashes; "" when neither set nor defaulted."""
        value = self.text(name, default).rstrip("/")
        if not value:
            return ""
        try:
            parts = urlsplit(value)
            _ = parts.port
        except ValueError:
            raise EnvError(f"{name}: is not a URL") from None
        if parts.scheme not in schemes or not parts.hostname:
            wanted = " or ".join(f"{scheme}://" for scheme in schemes)
            raise EnvError(f"{name}: must be a URL that starts with {wanted} and names a host")
        return value

    def secret_url(self, name: str, *, schemes: tuple[str, ...]) -> str:
        """A URL that may carry a password, so that NAME_FILE may hold it."""
        return Env({name: self.secret(name)}).url(name, schemes=schemes)

    def origin(self, name: str, default: str = "") -> str:
        """`scheme://host[:port]` and nothing after it."""
        return _origin(name, self.url(name, default))

    def origins(self, name: str) -> tuple[str, ...]:
        return tuple(_origin(name, Env({name: word}).url(name)) for word in self.words(name))

    def hosts(self, name: str) -> tuple[str, ...]:
        """Names of hosts, as browsers send them, without a port."""
        for word in self.words(name):
            if "/" in word or word.count(":") == 1:
                raise EnvError(f"{name}: {word!r} is more than a name: leave out scheme, port and path")
        return self.words(name)

    def timezone(self, name: str, default: str) -> str:
        """The name of a zone that this machine knows."""
        zone = self.text(name, default)
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise EnvError(f"{name}: there is no time zone called {zone!r}") from None
        return zone

    def networks(self, name: str) -> tuple[str, ...]:
        """Addresses and networks in CIDR form, as they were written."""
        for word in self.words(name):
            try:
                ip_network(word, strict=False)
            except ValueError:
                raise EnvError(f"{name}: {word!r} is neither an address nor a network") from None
        return self.words(name)

    def _number(
        self, name: str, default: float, least: float | None, most: float | None, *, whole: bool
    ) -> float:
        value = self.text(name)
        if not value:
            return default
        try:
            number = int(value) if whole else float(value)
        except ValueError:
            raise EnvError(f"{name}: must be a {'whole ' if whole else ''}number, not {value!r}") from None
        if (least is not None and number < least) or (most is not None and number > most) or number != number:
            raise EnvError(f"{name}: must be {_range(least, most)}, not {value}")
        return number


def _origin(name: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.path or parts.query or parts.fragment or parts.username:
        raise EnvError(f"{name}: must be scheme://host or scheme://host:port, with nothing more")
    return url


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return f"at least {least}"
    return f"from {least} to {most}"


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unreadable") if isinstance(error, OSError) else "it is not UTF-8 text"
