"""Items that callers name themselves: their ids may be as long as the doors let in."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("proxy", "0008_attachments_of_responses")]
    operations = [
        migrations.AlterField(
            model_name="conversationitem",
            name="item_id",
            field=models.CharField(max_length=128),
        )
    ]
