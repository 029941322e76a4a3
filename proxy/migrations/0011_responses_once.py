"""A response is made once under an idempotency key."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("proxy", "0010_research_attachments")]
    operations = [
        migrations.AddField("chatresponse", "idempotency_key", models.CharField(max_length=200, null=True)),
        migrations.AddField("chatresponse", "fingerprint", models.CharField(max_length=64, null=True)),
        migrations.AddConstraint(
            "chatresponse",
            models.UniqueConstraint(
                fields=["user", "idempotency_key"],
                condition=models.Q(idempotency_key__isnull=False),
                name="chat_response_once_per_key",
            ),
        ),
    ]
