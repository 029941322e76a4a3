"""What the page of a team lists: its members, leads first, and the invitations that wait."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("portal", "0003_chat_terms_of_keys")]
    operations = [
        migrations.AddIndex(
            "membership",
            models.Index(fields=["team", "role", "id"], name="membership_by_team"),
        ),
        migrations.AddIndex(
            "invitation",
            models.Index(
                fields=["team", "-id"],
                condition=models.Q(("accepted_at__isnull", True)),
                name="invitation_waiting_by_team",
            ),
        ),
    ]
