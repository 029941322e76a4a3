"""What a browser is told over its socket: hints, each a typed dict.

An event says that something moved, never what it is now: the page fetches that. So a lost,
doubled or late event costs nothing but time (STACK §4.1, Channels).
"""

from __future__ import annotations

from typing import Literal, TypedDict


class RunMoved(TypedDict):
    """`seq` is the run's event number, `state` its public status."""

    type: Literal["run"]
    id: str
    seq: int
    state: str


class ChatMoved(TypedDict):
    """`id` is the conversation's, `turn` the answer's; `seq` grows with it, `state` is how it stands."""

    type: Literal["chat"]
    id: str
    turn: str
    seq: int
    state: str


Event = RunMoved | ChatMoved
