"""Refusals that come with HTTP 200: quota, sign-in wall, failed runs (perplexity-web §§5, 6, 12).

A sign-in wall streams a polite sentence with every sign of success, so the frame's
`upsell_information` is looked at before its text.
"""

from __future__ import annotations

from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.tolerant import detail_of, object_of, text_of
from proxy.protocol.web_frame import Frame, read_json

_SIGN_IN_NAMES = ("authwall", "sign_in", "signin", "login")


def refusal(frame: Frame) -> Fault | None:
    """The fault that this frame tells of, if any."""
    upsell = frame.upsell_information
    if isinstance(upsell, dict) and (kind := _upsell_kind(upsell)):
        return Fault(kind, detail_of(upsell.get("title"), upsell.get("description")))
    if frame.error_code or frame.error or frame.status == "FAILED":
        return _told(frame.error_code, frame.error, frame.error_message)
    return None


def error_event(data: bytes) -> Fault:
    """An `event: error` record: its data is free text or JSON."""
    value = read_json(data)
    if not isinstance(value, dict):
        return Fault(FaultKind.REFUSED, detail_of(value, data.decode("utf-8", "replace")))
    return _told(
        value.get("error_code") or value.get("code"),
        value.get("error"),
        value.get("error_message") or value.get("message") or value.get("detail"),
    )


def _upsell_kind(upsell: dict[str, object]) -> FaultKind | None:
    name = text_of(upsell.get("name")).lower()
    kind = text_of(upsell.get("upsell_type")).upper()
    if kind == "LOGIN" or any(word in name for word in _SIGN_IN_NAMES):
        return FaultKind.SIGNED_OUT
    if "quota" in name or "UPGRADE" in kind:
        return FaultKind.QUOTA
    return None


def _told(code: object, error: object, message: object) -> Fault:
    nested = object_of(error)
    words = f"{text_of(code)} {text_of(nested.get('code'))} {text_of(error)}".upper()
    kind = FaultKind.RATE_LIMITED if "RATE_LIMIT" in words else FaultKind.REFUSED
    return Fault(kind, detail_of(message, nested.get("message"), error, code))
