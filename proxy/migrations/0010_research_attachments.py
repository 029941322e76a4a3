"""What is attached to research, and an index that sums up what somebody keeps."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("proxy", "0009_longer_item_ids"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ResearchAttachment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveSmallIntegerField()),
                ("name", models.CharField(max_length=255)),
                ("content_type", models.CharField(blank=True, max_length=100)),
                ("url", models.CharField(blank=True, max_length=2048)),
                ("key", models.UUIDField()),
                ("is_picture", models.BooleanField()),
            ],
            options={
                "ordering": ("position",),
            },
        ),
        migrations.AddIndex(
            model_name="storedfile",
            index=models.Index(
                condition=models.Q(("kept", True)),
                fields=["user", "touched_at", "size"],
                name="file_kept_by_user",
            ),
        ),
        migrations.AddField(
            model_name="researchattachment",
            name="file",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="proxy.storedfile",
            ),
        ),
        migrations.AddConstraint(
            model_name="researchattachment",
            constraint=models.UniqueConstraint(fields=("key", "position"), name="research_attachment_once"),
        ),
    ]
