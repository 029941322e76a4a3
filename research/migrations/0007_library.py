"""The library: an entry for each run and chat, tags, and the words by which they are found.

What there is already is taken in when the triggers are put in place, after the migrations; its words are
taken in the background.
"""

import django.db.models.deletion
import django.utils.timezone
from django.apps.registry import Apps
from django.conf import settings
from django.db import OperationalError, migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

WORDS = {
    "sqlite": (
        # Words come as we cut them: nothing but ASCII signs, of which they have none, may part them.
        "CREATE VIRTUAL TABLE research_librarywords USING fts5("
        "words, detail=none, columnsize=0, tokenize=\"ascii tokenchars '_'\")",
    ),
    "postgresql": (
        "ALTER TABLE research_libraryentry ADD COLUMN words tsvector",
        # The words stand aside, so that a look through many entries does not pass by them.
        "ALTER TABLE research_libraryentry SET (toast_tuple_target = 128)",
        # The planner does not know what it costs to read them there. Without statistics it takes every word
        # to be a rare one, and looks it up in the index.
        "ALTER TABLE research_libraryentry ALTER COLUMN words SET STATISTICS 0",
        "CREATE INDEX library_words ON research_libraryentry USING gin (words) WITH (fastupdate = off)"
        " WHERE words IS NOT NULL",
    ),
}


def make_words(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    try:
        for statement in WORDS[schema_editor.connection.vendor]:
            schema_editor.execute(statement)
    except OperationalError as error:
        if "fts5" not in str(error):
            raise
        problem = "this Python's SQLite has no FTS5, which the library is searched with"
        raise OperationalError(problem) from None


def drop_words(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TABLE research_librarywords")


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0004_team_lists"),
        ("proxy", "0011_responses_once"),
        ("research", "0006_runs_given_to_teams"),
    ]
    operations = [
        migrations.CreateModel(
            name="LibraryEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("item", models.UUIDField(unique=True)),
                ("kind", models.CharField(choices=[("run", "Run"), ("chat", "Chat")], max_length=4)),
                ("at", models.DateTimeField()),
                ("label", models.CharField(max_length=80)),
                ("status", models.CharField(max_length=10)),
                ("changed", models.PositiveIntegerField(default=1)),
                ("indexed", models.PositiveIntegerField(default=0)),
                (
                    "shared_with",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="portal.team",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["user", "-at", "-id", "kind", "status", "label"], name="library_by_user"
                    ),
                    models.Index(
                        condition=models.Q(("shared_with__isnull", False)),
                        fields=["shared_with", "-at", "-id"],
                        name="library_by_team",
                    ),
                    models.Index(
                        condition=models.Q(("indexed__lt", models.F("changed"))),
                        fields=["id"],
                        name="library_to_index",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LibraryTag",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("item", models.UUIDField()),
                ("name", models.CharField(max_length=30)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="library_tags",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "indexes": [models.Index(fields=["user", "name", "item"], name="library_tag_by_name")],
                "constraints": [
                    models.UniqueConstraint(fields=("item", "user", "name"), name="library_tag_once")
                ],
            },
        ),
        migrations.RunPython(make_words, drop_words),
    ]
