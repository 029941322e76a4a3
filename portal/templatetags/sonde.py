"""What every template needs: icons, moments in the reader's zone, credits and lengths of time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from django import template
from django.forms import BoundField
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite; it says nothing to a screen reader, the words beside it do."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        static("icons.svg"),
        name,
    )


@register.simple_tag
def moment(at: datetime | None, style: str = "ago") -> SafeString | str:
    """A `<time>` that js/times.js shows in the reader's zone; as UTC without script.

    Styles: `ago`, `clock` (14:05:09), `full` (30 November 2026, 14:05).
    """
    if at is None:
        return ""
    there = at.astimezone(UTC)
    shown = f"{there:%H:%M:%S} UTC" if style == "clock" else f"{there.day} {there:%b %Y, %H:%M} UTC"
    return format_html('<time datetime="{}" data-style="{}">{}</time>', there.isoformat(), style, shown)


@register.filter
def credits(amount: Decimal | None) -> str:
    """2 credits, 1 credit, 0.1 credits."""
    if amount is None:
        return ""
    return f"{number(amount, ',')} {'credit' if amount == 1 else 'credits'}"


@register.filter
def number(amount: Decimal, separator: str = "") -> str:
    """Without zeros that say nothing: 2, 0.1."""
    text = format(amount, f"{separator}f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@register.filter
def of(names: Mapping[str, str], name: str) -> str:
    """The title of a name; the name itself when it has none any more."""
    return names.get(name, name)


@register.filter
def about(seconds: float) -> str:
    """A length of time as people say it: 40 s, 4 min, 1 h 30 min."""
    if seconds < 90:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"


@register.filter
def clock(seconds: float) -> str:
    """A length of time as a stopwatch shows it: 4:05, 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


@register.simple_tag
def styled(field: BoundField) -> SafeString:
    """A form's field in our looks, wired to its help and its errors."""
    described = [f"{field.auto_id}_helptext"] if field.help_text else []
    described += [f"{field.auto_id}_error"] if field.errors else []
    attributes: dict[str, str | bool] = {"class": "input", "placeholder": ""}
    if described:
        attributes["aria-describedby"] = " ".join(described)
    return field.as_widget(attrs=attributes)
