"""Messages to the administrators, through Apprise: to ntfy, by the seed's variables (SPEC 5.5)."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.conf import settings

from portal.services import network

log = logging.getLogger(__name__)

TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}", re.ASCII)
SHARED_TOPIC = "pplx-proxy"
"""A name that everybody may read and write: no place for messages about sessions."""


@dataclass(frozen=True, slots=True)
class Notice:
    """`tags` are ntfy's emoji names, `link` the page to open; nothing in it is a secret."""

    title: str
    text: str
    tags: tuple[str, ...] = ()
    is_urgent: bool = False
    link: str = ""


def problem() -> str:
    """Why nobody can be told, for people; "" when somebody can, or when nobody asked for it."""
    if settings.NTFY_TOPIC and not topic():
        return "NTFY_TOPIC must be 1 to 64 letters, digits, - and _, and not the shared name pplx-proxy"
    return ""


def topic() -> str:
    """Where messages go; "" without a usable one."""
    name: str = settings.NTFY_TOPIC
    return name if TOPIC.fullmatch(name) and name != SHARED_TOPIC else ""


def send(notice: Notice) -> bool:
    """Whether it was delivered. Waits for the network, so never inside a transaction."""
    if not topic():
        return False
    return network.call(_send(notice))


async def _send(notice: Notice) -> bool:
    # Loaded by the few processes that ever send something: it is large.
    from apprise import Apprise  # noqa: PLC0415
    from apprise.plugins.ntfy import NotifyNtfy  # noqa: PLC0415

    place = urlsplit(settings.NTFY_URL)
    ntfy = NotifyNtfy(  # type: ignore[no-untyped-call]  # Apprise types its callers only
        secure=place.scheme == "https",
        host=place.hostname,
        port=place.port,
        user=unquote(place.username or "") or None,
        password=unquote(place.password or "") or None,
        targets=[topic()],
        mode="private",  # the server we name, also where that is the public one
        priority="high" if notice.is_urgent else "default",
        xtags=",".join(notice.tags),
        click=notice.link or None,
        actions=f"view, Open, {notice.link}" if notice.link else None,
        include_image=False,
    )
    sender = Apprise()
    sender.add(ntfy)
    delivered = bool(await sender.async_notify(title=notice.title, body=notice.text))
    if not delivered:
        log.warning("a message was not delivered to %s: %s", place.hostname, notice.title)
    return delivered
