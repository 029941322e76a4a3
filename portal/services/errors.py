"""What services answer to a request that cannot be done as asked."""

from __future__ import annotations


class Invalid(Exception):
    """One clear line for people; `field` names the part of the request that is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field
