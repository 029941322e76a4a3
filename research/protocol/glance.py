"""A first look at an Agent API job: most of them go on and show nothing yet (perplexity-api §5.6).

Whether it does is read out of its bytes without making anything of the rest of them.
"""

from __future__ import annotations

import msgspec

GOES_ON = frozenset({"queued", "in_progress"})
NOTHING = (b"", b"[]", b"null")


class _Job(msgspec.Struct):
    status: str = ""
    output: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Job).decode


def goes_on_silently(body: bytes) -> bool:
    """Whether `wire_agent.parse_snapshot` would say of this answer that it goes on, and no more. False for
    all that has to be read in full."""
    try:
        job = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return job.status in GOES_ON and bytes(job.output) in NOTHING
