"""The plan that newcomers get: 100 credits a month (SPEC 10.4)."""

from decimal import Decimal

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def add_default_plan(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    plans = apps.get_model("portal", "Plan").objects
    if not plans.exists():
        plans.create(name="Standard", allowance=Decimal(100), is_default=True)


class Migration(migrations.Migration):
    dependencies = [("portal", "0001_people_keys_ledger")]
    operations = [migrations.RunPython(add_default_plan, migrations.RunPython.noop)]
