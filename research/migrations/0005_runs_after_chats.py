"""The chat's response that a run goes on from."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("research", "0004_more_backends")]
    operations = [migrations.AddField("run", "previous_chat", models.UUIDField(null=True))]
