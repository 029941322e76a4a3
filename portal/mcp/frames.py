"""Standard input and output as a stream of messages (mcp-deep-research §5).

On standard output there is nothing but frames: whatever else in this process prints goes to standard
error. A line that is no JSON is skipped and told there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import BinaryIO

from portal.mcp.messages import PARSE_ERROR, Message, NotAMessage, encoded, error, read_message

log = logging.getLogger(__name__)

LONGEST_LINE = 4 * 1024 * 1024
MOST_WAITING = 100


class Frames:
    """Made once, in the running loop: it takes both descriptors for itself."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(MOST_WAITING)
        self._loop = asyncio.get_running_loop()
        self._input = _taken(0, os.open(os.devnull, os.O_RDONLY), "rb")
        self._output = _taken(1, os.dup(2), "wb")
        sys.stdout = sys.stderr
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def messages(self) -> AsyncIterator[Message]:
        """Until the end of input. A message with the id null is a notification."""
        while (line := await self._lines.get()) is not None:
            self._room.release()
            try:
                message = read_message(line)
            except NotAMessage as problem:
                log.warning("a line was skipped: %s", problem)
                if problem.code != PARSE_ERROR:
                    self.write(error(None, problem.code, str(problem)))
                continue
            if "method" in message and message.get("id", 0) is None:
                del message["id"]
            yield message

    def write(self, message: Message) -> None:
        """Whole, and at once. A reader that is gone needs no answer."""
        try:
            self._output.write(encoded(message) + b"\n")
            self._output.flush()
        except BrokenPipeError:
            log.warning("nobody reads the answers any more")

    def _read(self) -> None:
        """In a thread of its own: a loop that has ended, at a signal, wants no more."""
        with suppress(RuntimeError):
            while line := self._input.readline(LONGEST_LINE):
                if line.endswith(b"\n") or len(line) < LONGEST_LINE:
                    self._put(line)
                else:
                    self._skip_rest()
            self._put(None)

    def _skip_rest(self) -> None:
        log.warning("a line was skipped: it is longer than %d bytes", LONGEST_LINE)
        while (rest := self._input.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass

    def _put(self, line: bytes | None) -> None:
        """Raises RuntimeError once the loop is closed."""
        if line is None or line.strip():
            self._room.acquire()
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _taken(descriptor: int, instead: int, mode: str) -> BinaryIO:
    """The stream behind a standard descriptor, which from now on is `instead`."""
    own = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    return os.fdopen(own, mode)  # type: ignore[return-value]  # a binary mode
