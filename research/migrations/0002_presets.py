"""The presets of agent-api §4. Operators edit them; a run keeps the values it was admitted with."""

from decimal import Decimal

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

# name, aliases, title, summary, time budget and usual time in seconds, credits, agent effort, sonar effort
PRESETS = (
    (
        "2m",
        ("fast", "fast-search"),
        "Quick",
        "A short answer to a plain question.",
        120,
        40,
        1,
        "fast",
        "minimal",
    ),
    ("5m", ("low", "pro-search"), "Brief", "A few searches, one page of report.", 300, 120, 1, "low", "low"),
    (
        "10m",
        ("medium", "deep-research"),
        "Standard",
        "Several angles, compared.",
        600,
        240,
        1,
        "medium",
        "medium",
    ),
    (
        "30m",
        ("high", "advanced-deep-research"),
        "Deep",
        "Many sources, read in full.",
        1800,
        600,
        2,
        "high",
        "high",
    ),
    ("60m", ("xhigh",), "Exhaustive", "Everything the time allows.", 3600, 1500, 4, "xhigh", "high"),
)
DEFAULT = "30m"


def add_presets(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    presets = apps.get_model("research", "Preset").objects
    if presets.exists():
        return
    for position, (name, aliases, title, summary, budget, usual, price, agent, sonar) in enumerate(PRESETS):
        presets.create(
            name=name,
            title=title,
            summary=summary,
            aliases=list(aliases),
            position=position,
            is_default=name == DEFAULT,
            price=Decimal(price),
            time_budget=budget,
            usual_seconds=usual,
            parameters={"agent": {"effort": agent}, "sonar": {"reasoning_effort": sonar}},
        )


def add_backend_policies(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The Agent API takes no idempotency key: its open question is settled by sending once more."""
    policies = apps.get_model("research", "BackendPolicy").objects
    for name in ("agent", "sonar", "sonar-sdk"):
        policies.get_or_create(name=name, defaults={"resubmit": name == "agent"})


class Migration(migrations.Migration):
    dependencies = [("research", "0001_runs")]
    operations = [
        migrations.RunPython(add_presets, migrations.RunPython.noop),
        migrations.RunPython(add_backend_policies, migrations.RunPython.noop),
    ]
