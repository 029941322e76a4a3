"""Policies of the backends `web` and `responses`: neither is sent a run twice unless an operator says so."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def add_backend_policies(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    policies = apps.get_model("research", "BackendPolicy").objects
    for name in ("web", "responses"):
        policies.get_or_create(name=name, defaults={"resubmit": False})


class Migration(migrations.Migration):
    dependencies = [("research", "0003_ended_runs_by_user")]
    operations = [migrations.RunPython(add_backend_policies, migrations.RunPython.noop)]
