"""The models of perplexity-web §13 and the whitelist that proxy-contract §5.7 ships."""

from decimal import Decimal

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from proxy.protocol.clients import DEFAULT_WHITELIST
from proxy.protocol.model_table import FREE_MODEL, SEED


def add_models(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    models = apps.get_model("proxy", "ChatModel").objects
    if models.exists():
        return
    for position, model in enumerate(SEED):
        models.create(
            id=model.id,
            label=model.label,
            tier=model.tier,
            mode=model.mode,
            preference=model.preference,
            thinking=model.thinking,
            enabled=model.enabled,
            price=Decimal(0) if model.id == FREE_MODEL else Decimal("0.1"),
            position=position,
        )


def add_patterns(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    patterns = apps.get_model("proxy", "PromptPattern").objects
    if patterns.exists():
        return
    for position, pattern in enumerate(DEFAULT_WHITELIST):
        patterns.create(pattern=pattern, position=position)


class Migration(migrations.Migration):
    dependencies = [("proxy", "0001_accounts_models_chats")]
    operations = [
        migrations.RunPython(add_models, migrations.RunPython.noop),
        migrations.RunPython(add_patterns, migrations.RunPython.noop),
    ]
