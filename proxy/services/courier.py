"""Brings what is attached to the account that answers: after the turn is open, before the question.

An account that fails before the first text hands over to another, and the courier goes again: what one
account was given, no other can see. What it was given once, it is not given twice.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import UUID

from portal.http import Guard
from portal.services.spool import Spool
from proxy.protocol import attachments as rules
from proxy.protocol.delta import Fault
from proxy.services.attachments import Enclosure
from proxy.services.chat import ChatPlan
from proxy.services.files import read_file
from proxy.services.kept_files import gone
from proxy.services.rotation import renewed
from proxy.services.threads import in_thread
from proxy.upstream.attachments import Parcel, deliver


class Courier:
    """Of one question. `guard` says where addresses may lead."""

    def __init__(self, enclosures: tuple[Enclosure, ...], guard: Guard | None = None) -> None:
        self.addresses: tuple[str, ...] = ()
        """Of what the account of the last `bring` was given, in the order of the question."""
        self._enclosures = list(enclosures)
        self._guard = guard
        self._given: dict[tuple[int, int], str] = {}

    async def bring(self, plan: ChatPlan) -> ChatPlan | Fault:
        """The plan to go on with: its cookies may be newer. Raises Problem, with `param` input.

        A thread that goes on has what was attached to its earlier questions.
        """
        addresses: list[str] = []
        for place, enclosure in enumerate(self._enclosures):
            if plan.follows and not enclosure.is_new:
                continue
            known = plan.session.account_id, place
            if known not in self._given:
                delivered = await deliver(plan.session, await self._parcel(place), renewed)
                if isinstance(delivered, Fault):
                    return delivered
                plan = replace(plan, session=delivered.session)
                self._given[known] = delivered.url
            addresses.append(self._given[known])
        self.addresses = tuple(addresses)
        return plan

    async def _parcel(self, place: int) -> Parcel:
        """Fetched and read once, for every account that it is brought to."""
        enclosure = self._enclosures[place]
        held = sum(one.size for one in self._enclosures) - enclosure.size
        parcel = await parcel_of(enclosure, rules.LARGEST - held, self._guard or Guard())
        self._enclosures[place] = replace(
            enclosure,
            name=parcel.name,
            content_type=parcel.content_type,
            size=parcel.content.size,
            content=parcel.content,
        )
        return parcel


async def parcel_of(enclosure: Enclosure, largest: int, guard: Guard) -> Parcel:
    """One attachment with its bytes: those at hand, else those of its file, else what its address leads to,
    which may be of `largest` bytes. Raises Problem, with `param` input."""
    content = enclosure.content
    if content is None and enclosure.file_id is not None:
        content = await in_thread(partial(_read, enclosure.file_id))
    if content is not None:
        return Parcel(enclosure.name, enclosure.content_type, content)
    # Loaded with the first address that is attached: it brings aiohttp, a tenth of a portal's start.
    from proxy.upstream.fetching import fetch  # noqa: PLC0415

    fetched = await fetch(enclosure.url, largest, guard)
    head = fetched.content.head(rules.HEAD)
    kind = rules.type_of(fetched.content_type, fetched.name or enclosure.name, head)
    return Parcel(rules.upload_name(enclosure.name, kind), kind, fetched.content)


def _read(file_id: UUID) -> Spool:
    """Raises BadRequest when it was deleted meanwhile."""
    content = Spool()
    for piece in read_file(file_id):
        content.write(piece)
    if not content.size:
        raise gone()
    return content
