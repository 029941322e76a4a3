"""How chat treats a key: prompt policy, client profile, the footer of sources."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("portal", "0002_default_plan")]
    operations = [
        migrations.AddField(
            "apikey",
            "prompt_policy",
            models.CharField(
                choices=[
                    ("filter", "filter: keep the lines of the whitelist"),
                    ("forward", "forward: send them as they are"),
                    ("custom", "custom: the portal's own text in their place"),
                ],
                default="filter",
                max_length=7,
            ),
        ),
        migrations.AddField(
            "apikey",
            "client_profile",
            models.CharField(
                blank=True,
                choices=[("", "detect"), ("generic", "Generic"), ("lobehub", "LobeHub")],
                default="",
                max_length=7,
            ),
        ),
        migrations.AddField(
            "apikey",
            "sources_footer",
            models.BooleanField(default=False, help_text="List the sources behind chat answers."),
        ),
    ]
