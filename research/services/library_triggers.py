"""Has the database itself keep the library's entries, whoever writes a run or a chat, and however.

Rounds, settlements and sweeps write many rows at a time in statements of their own; none of them has to know
of the library. An entry comes, moves and goes in the transaction of its run or chat.

The triggers are put back after every migration, since rebuilding a table drops them on SQLite. Wherever one
was missing, what was written meanwhile is taken in: so it is that what there was before the library is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = ("research_run", "proxy_conversation", "proxy_chatturn", "research_libraryentry")
NEXT_ID = {
    "sqlite": "(SELECT max(id) + 1 FROM research_libraryentry)",
    "postgresql": "nextval(pg_get_serial_sequence('research_libraryentry', 'id'))",
}
COLUMNS = "item, kind, user_id, shared_with_id, at, label, status, changed, indexed"
ENDED_RUN = "CASE WHEN {row}.completed_at IS NULL THEN 'live' ELSE {row}.state END"
ENDED_TURN = "CASE {row}.state WHEN 'open' THEN 'live' WHEN 'delivered' THEN 'completed' ELSE {row}.state END"
RUN = (
    "{row}.id, 'run', {row}.user_id, {row}.shared_with_id, {row}.created_at, {row}.preset, "
    f"{ENDED_RUN}, 1, 0"
)
CHAT = "{row}.id, 'chat', {row}.user_id, NULL, {row}.updated_at"
TAKE_IN = (
    f"INSERT INTO research_libraryentry ({COLUMNS}) SELECT {RUN.format(row='r')} FROM research_run r"
    " WHERE hidden_at IS NULL AND NOT EXISTS (SELECT 1 FROM research_libraryentry e WHERE e.item = r.id)"
    " ORDER BY created_at, id",
    f"INSERT INTO research_libraryentry ({COLUMNS}) SELECT {CHAT.format(row='c')}, COALESCE(t.model, ''),"
    f" COALESCE({ENDED_TURN.format(row='t')}, 'completed'), 1, 0 FROM proxy_conversation c"
    " LEFT JOIN proxy_chatturn t ON t.id = (SELECT id FROM proxy_chatturn"
    " WHERE conversation_id = c.id ORDER BY created_at DESC, id DESC LIMIT 1)"
    " WHERE c.hidden_at IS NULL AND NOT EXISTS (SELECT 1 FROM research_libraryentry e WHERE e.item = c.id)"
    " ORDER BY c.updated_at, c.id",
)
PRESENT = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A') AND tgrelid IN ("
        + ", ".join(f"to_regclass('{table}')" for table in TABLES)
        + ")"
    ),
}


@dataclass(frozen=True, slots=True)
class Trigger:
    """What follows from a change of a row. `{next_id}` stands for an entry's new place."""

    name: str
    table: str
    event: str
    does: str
    when: str = ""
    only: str = ""
    """The one database that has it; "" for both."""


_ENTRY = "UPDATE research_libraryentry SET {} WHERE item = NEW."
_ENDED = "NEW.hidden_at IS NOT NULL AND OLD.hidden_at IS NULL"
_GONE = "DELETE FROM research_libraryentry WHERE item = OLD.id"
_OF_CHAT = "NEW.conversation_id IS NOT NULL"
TRIGGERS = (
    Trigger(
        "library_run_asked",
        "research_run",
        "INSERT",
        f"INSERT INTO research_libraryentry ({COLUMNS}) VALUES ({RUN.format(row='NEW')})",
        "NEW.hidden_at IS NULL",
    ),
    Trigger(
        "library_run_ended",
        "research_run",
        "UPDATE OF completed_at",
        _ENTRY.format("status = NEW.state, changed = changed + 1") + "id",
        "NEW.completed_at IS NOT NULL AND OLD.completed_at IS NULL",
    ),
    Trigger(
        "library_run_given",
        "research_run",
        "UPDATE OF shared_with_id",
        _ENTRY.format("shared_with_id = NEW.shared_with_id, changed = changed + 1") + "id",
    ),
    Trigger("library_run_hidden", "research_run", "UPDATE OF hidden_at", _GONE, _ENDED),
    Trigger("library_run_gone", "research_run", "DELETE", _GONE),
    Trigger(
        "library_chat_begun",
        "proxy_conversation",
        "INSERT",
        f"INSERT INTO research_libraryentry ({COLUMNS}) VALUES ({CHAT.format(row='NEW')}, '', 'live', 1, 0)",
        "NEW.hidden_at IS NULL",
    ),
    Trigger(
        "library_chat_went_on",
        "proxy_conversation",
        "UPDATE OF updated_at",
        _ENTRY.format("id = {next_id}, at = NEW.updated_at") + "id",
        "NEW.updated_at > OLD.updated_at",
    ),
    Trigger(
        "library_chat_named",
        "proxy_conversation",
        "UPDATE OF title",
        _ENTRY.format("changed = changed + 1") + "id",
    ),
    Trigger("library_chat_hidden", "proxy_conversation", "UPDATE OF hidden_at", _GONE, _ENDED),
    Trigger("library_chat_gone", "proxy_conversation", "DELETE", _GONE),
    Trigger(
        "library_turn_asked",
        "proxy_chatturn",
        "INSERT",
        _ENTRY.format(f"label = NEW.model, status = {ENDED_TURN.format(row='NEW')}, changed = changed + 1")
        + "conversation_id",
        _OF_CHAT,
    ),
    Trigger(
        "library_turn_ended",
        "proxy_chatturn",
        "UPDATE OF state",
        _ENTRY.format(f"status = {ENDED_TURN.format(row='NEW')}, changed = changed + 1") + "conversation_id",
        f"{_OF_CHAT} AND NEW.state <> 'open' AND OLD.state = 'open'",
    ),
    Trigger(
        "library_entry_gone",
        "research_libraryentry",
        "DELETE",
        "DELETE FROM research_librarytag WHERE item = OLD.item",
    ),
    Trigger(
        "library_words_gone",
        "research_libraryentry",
        "DELETE",
        "DELETE FROM research_librarywords WHERE rowid = OLD.id",
        only="sqlite",
    ),
    Trigger(
        "library_words_moved",
        "research_libraryentry",
        "UPDATE OF id",
        "UPDATE research_librarywords SET rowid = NEW.id WHERE rowid = OLD.id",
        "NEW.id <> OLD.id",
        only="sqlite",
    ),
)


def install(using: str = "default") -> None:
    """Put every missing trigger in place, and take in what came while one was missing. Tables that do not
    exist yet have nothing to watch."""
    connection = connections[using]
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        wanting = missing(using)
        if not wanting or not tables.issuperset(TABLES):
            return
        with transaction.atomic(using):
            for trigger in wanting:
                for statement in _statements(connection, trigger):
                    cursor.execute(statement)
            for statement in TAKE_IN:
                cursor.execute(statement)


def missing(using: str = "default") -> list[Trigger]:
    """Those that are not there; empty when all is well."""
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(PRESENT[connection.vendor])
        present = {name for (name,) in cursor.fetchall()}
    wanted = [trigger for trigger in TRIGGERS if trigger.only in ("", connection.vendor)]
    return [trigger for trigger in wanted if trigger.name not in present]


def _statements(connection: BaseDatabaseWrapper, trigger: Trigger) -> list[str]:
    does = trigger.does.replace("{next_id}", NEXT_ID[connection.vendor])
    head = f"CREATE TRIGGER {trigger.name} AFTER {trigger.event} ON {trigger.table} FOR EACH ROW"
    when = f" WHEN ({trigger.when})" if trigger.when else ""
    if connection.vendor == "sqlite":
        return [f"DROP TRIGGER IF EXISTS {trigger.name}", f"{head}{when} BEGIN {does}; END"]
    function = f"CREATE OR REPLACE FUNCTION {trigger.name}() RETURNS trigger LANGUAGE plpgsql AS $$"
    return [
        f"{function} BEGIN {does}; RETURN NULL; END $$",
        f"DROP TRIGGER IF EXISTS {trigger.name} ON {trigger.table}",
        f"{head}{when} EXECUTE FUNCTION {trigger.name}()",
    ]
