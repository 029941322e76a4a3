"""Which model really answers (perplexity-web §9).

A frame names the model at work. Another one than was asked for is a substitution, and stays one,
but for a minor tail: a small model may add the last few characters of an answer that the asked-for
model has given.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.protocol.delta import ModelUsed

_TAIL_CHARACTERS = 16
_TAIL_SHARE = 0.05
_BEST = ("pplx_pro", "turbo")
_SUFFIX = "thinking"


def same_model(requested: str, reported: str) -> bool:
    """Whether `reported` is an honest answer to `requested` (both preference ids)."""
    if requested == reported:
        return True
    if requested == _BEST[0]:
        return reported in _BEST
    base = requested.removesuffix(_SUFFIX)
    return base != requested and reported in (base, base.rstrip("_"))


@dataclass(slots=True)
class ModelWatch:
    """Follows the frames of one answer to the `requested` preference."""

    requested: str
    used: ModelUsed | None = None
    _selected: str = ""

    def see(self, display: str, selected: str, *, piece: int, emitted: int) -> ModelUsed | None:
        """What a frame says; `piece` characters are new in it, after `emitted` ones. None: no news."""
        self._selected = selected or self._selected
        if not display or (self.used and (self.used.substituted or self.used.preference == display)):
            return None
        if same_model(self.requested, display):
            used = ModelUsed(display, substituted=False)
        elif self._is_tail(piece, emitted):
            return None
        else:
            used = ModelUsed(display, substituted=True)
        self.used = used
        return used

    def _is_tail(self, piece: int, emitted: int) -> bool:
        honest = same_model(self.requested, self._selected) if self._selected else False
        small = piece == 0 or (piece <= _TAIL_CHARACTERS and piece <= _TAIL_SHARE * emitted)
        return honest and emitted > 0 and small
