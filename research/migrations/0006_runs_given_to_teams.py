"""Runs that their users have given to their teams, and the list of them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("portal", "0004_team_lists"), ("research", "0005_runs_after_chats")]
    operations = [
        migrations.AddField(
            "run",
            "shared_with",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="shared_runs",
                to="portal.team",
            ),
        ),
        migrations.AddField("run", "shared_at", models.DateTimeField(null=True)),
        migrations.AddIndex(
            "run",
            models.Index(
                fields=["shared_with", "-shared_at", "-id"],
                condition=models.Q(("hidden_at__isnull", True), ("shared_with__isnull", False)),
                name="run_by_team",
            ),
        ),
    ]
