"""Functions for a model that has none: the question as the engine of chat takes it, and the verdict.

    conversation_of(request.bridge)   what stands in for the conversation; the question is `bridge.query`
    Judge(bridge, subject)            handed to the relay, which asks it before anything counts as
                                      delivered; then `answer` holds calls or a message

The pure part is `proxy/protocol/functions*.py`; every door of chat uses these two.
"""

from __future__ import annotations

import asyncio
from functools import partial

from proxy.protocol.conversation import Conversation
from proxy.protocol.delta import Done
from proxy.protocol.functions_answer import BridgeAnswer, read_answer
from proxy.protocol.functions_prompt import Bridge, rules


def conversation_of(bridge: Bridge) -> Conversation:
    """No thread upstream can stand for it: rules and functions shape it."""
    return Conversation("generic", bridge.question, instructions=(rules(bridge.offer),))


class Judge:
    """Reads one whole answer. `subject` is what ids of calls follow from."""

    def __init__(self, bridge: Bridge, subject: str) -> None:
        self._offer = bridge.offer
        self._subject = subject
        self._answer: BridgeAnswer | None = None

    @property
    def answer(self) -> BridgeAnswer:
        """What the model asks for, once it was judged."""
        if self._answer is None:
            raise RuntimeError("nothing was judged yet")
        return self._answer

    async def judge(self, done: Done) -> None:
        """Raises Violation. A schema may take its time: the event loop does not wait for it."""
        work = partial(read_answer, done.answer, self._offer, self._subject)
        self._answer = await asyncio.to_thread(work)
