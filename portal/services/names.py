"""What a name may be made of: it is shown in lists, in logs, in audit rows and on terminals."""

from __future__ import annotations

import re

UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, what turns the direction of the text around it, half characters.
Joiners stay: Persian is not written without them."""


def is_fit(text: str) -> bool:
    return UNFIT.search(text) is None
