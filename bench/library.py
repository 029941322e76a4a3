"""QUALITY §1, S9: a page of the library among 100,000 runs, with filters and with words, on both databases.

    .venv/bin/python -m bench.library [--runs 100000] [--pages 400] [--only sqlite,postgres]

Nine tenths of the runs are the reader's own, the rest a colleague's, half of that given to the team. Words of
reports are as often as in life: of 40,000 words the n-th stands there 1/n as often as the first. What is
timed is the whole of a request within the process, from the middleware to the page.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORDS, SENTENCES, SENTENCE, REPORT = 40_000, 20_000, 20, 25
"""Different words and sentences, words of a sentence, sentences of a report: 500 words, 3.2 KiB."""
TAGGED = 1_000
GOAL, MOST_QUERIES = 100.0, 12
SECRETS = {
    "SECRET_KEY": "a secret key of fifty and more characters for this bench alone",
    "SONDE_ENCRYPTION_KEYS": "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
}
Said = dict[str, str]


def environment_of(engine: str, folder: Path, stack: ExitStack) -> dict[str, str]:
    usual = {"PATH": os.environ["PATH"], "SONDE_ENV_FILE": "", "DATA_DIR": str(folder), **SECRETS}
    if engine == "sqlite":
        return usual
    from tests.services import Postgres, running  # noqa: PLC0415  # SQLite needs neither

    assert Postgres
    url = stack.enter_context(running("postgres"))
    return {**usual, "SONDE_MODE": "cluster", "DATABASE_URL": url, "REDIS_URL": "redis://127.0.0.1:1/0"}


def vocabulary(chance: random.Random) -> list[str]:
    syllables = [first + second for first in "bcdfghklmnprstvw" for second in ("a", "e", "i", "o", "u", "ei")]
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(chance.choices(syllables, k=chance.choice((1, 2, 2, 3, 3, 4))))] = None
    return list(words)


def sentences(words: list[str], chance: random.Random) -> list[str]:
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    drawn = chance.choices(words, weights, k=SENTENCES * SENTENCE)
    return [" ".join(drawn[place : place + SENTENCE]) + "." for place in range(0, len(drawn), SENTENCE)]


def fill(count: int, said: list[str], chance: random.Random) -> Any:
    """The runs with their reports and words, oldest first; the reader."""
    from django.utils import timezone  # noqa: PLC0415  # after the settings

    from portal.models.teams import Membership, Team  # noqa: PLC0415
    from portal.services import users  # noqa: PLC0415
    from research.models.library import LibraryEntry, LibraryTag  # noqa: PLC0415
    from research.protocol.searching import words_of  # noqa: PLC0415

    reader, colleague = (users.create_user(f"{name}@example.org") for name in ("reader", "colleague"))
    team = Team.objects.first() or Team.objects.create(name="bench")
    for user in (reader, colleague):
        Membership.objects.update_or_create(user=user, defaults={"team": team})
    began = timezone.now() - timedelta(minutes=count)
    known = {sentence: words_of(sentence) for sentence in said}
    for first in range(0, count, 1_000):
        batch = range(first, min(first + 1_000, count))
        put([a_run(place, reader, colleague, team, began, said, chance) for place in batch], known, chance)
    LibraryEntry.objects.update(indexed=1)
    own = list(LibraryEntry.objects.filter(user=reader).values_list("item", flat=True))
    tagged = chance.sample(own, min(TAGGED, len(own)))
    LibraryTag.objects.bulk_create(LibraryTag(user=reader, item=item, name="sea") for item in tagged)
    return reader


def a_run(
    place: int, reader: Any, colleague: Any, team: Any, began: Any, said: list[str], chance: random.Random
) -> Any:
    from research.models.runs import Run  # noqa: PLC0415  # after the settings

    question, at = chance.choice(said), began + timedelta(minutes=place)
    return Run(
        user=colleague if place % 10 == 0 else reader,
        shared_with=team if place % 20 == 0 else None,
        shared_at=at if place % 20 == 0 else None,
        door="rest",
        fingerprint=f"{place:064}",
        question=question,
        title=question[:120],
        preset=chance.choices(("2m", "30m", "1h"), (60, 39, 1))[0],
        price=1,
        time_budget=600,
        usual_seconds=60,
        backends=["agent"],
        state=chance.choices(("completed", "incomplete", "failed", "cancelled"), (90, 4, 4, 2))[0],
        next_run_at=None,
        deadline_at=at,
        created_at=at,
        completed_at=at,
    )


def put(runs: list[Any], known: dict[str, list[str]], chance: random.Random) -> None:
    """Words are put together from those of the sentences: they are those of the whole, in less time."""
    from django.db import connection, transaction  # noqa: PLC0415  # after the settings

    from research.models.library import LibraryEntry  # noqa: PLC0415
    from research.models.reports import Report  # noqa: PLC0415
    from research.models.runs import Run  # noqa: PLC0415
    from research.services.library_index import marks_of  # noqa: PLC0415

    texts = {run.pk: chance.choices(list(known), k=REPORT) for run in runs}
    with transaction.atomic(), connection.cursor() as cursor:
        Run.objects.bulk_create(runs)
        Report.objects.bulk_create(Report(run=run, text="\n\n".join(texts[run.pk]), html="") for run in runs)
        questions = {run.pk: run.question for run in runs}
        rows = []
        for entry in LibraryEntry.objects.filter(item__in=texts).order_by("id"):
            words = {word for one in (questions[entry.item], *texts[entry.item]) for word in known[one]}
            rows.append((entry.pk, [*marks_of(entry), *words]))
        if connection.vendor == "sqlite":
            insert = "INSERT INTO research_librarywords (rowid, words) VALUES (%s, %s)"
            cursor.executemany(insert, [(pk, " ".join(words)) for pk, words in rows])
        else:
            update = "UPDATE research_libraryentry SET words = array_to_tsvector(%s) WHERE id = %s"
            cursor.executemany(update, [(words, pk) for pk, words in rows])


def filtered(chance: random.Random) -> Said:
    since = f"2026-{chance.randint(10, 11)}-{chance.randint(1, 28):02}"
    said: tuple[Said, ...] = (
        {},
        {"kind": "run"},
        {"kind": "shared"},
        {"status": chance.choice(("failed", "incomplete", "cancelled", "live"))},
        {"label": chance.choice(("2m", "30m", "1h", "gpt"))},
        {"label": "1h", "status": "cancelled"},
        {"tag": "sea"},
        {"tag": "sea", "status": "failed"},
        {"until": since},
        {"since": since, "status": "failed"},
        {"kind": "chat"},
    )
    return chance.choice(said)


def worded(words: list[str]) -> Callable[[random.Random], Said]:
    def draw(chance: random.Random) -> Said:
        def word() -> str:
            return words[int(10 ** chance.uniform(0, 4.6)) - 1]

        said = {"q": " ".join(word() for _ in range(chance.choice((1, 1, 2, 3))))}
        if chance.random() < 0.3:
            said["q"] = said["q"][: max(3, len(said["q"]) - 2)]
        return said | (filtered(chance) if chance.random() < 0.4 else {})

    return draw


def measure(name: str, client: Any, draw: Callable[[random.Random], Said], pages: int) -> bool:
    """Print a line; whether the goal was reached."""
    from django.db import connection  # noqa: PLC0415  # after the settings
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    chance = random.Random(9)
    times: list[tuple[float, Said]] = []
    cpu: list[float] = []
    most = found = 0
    for _ in range(pages):
        said = draw(chance)
        for _ in range(2):  # the page, and the next one behind it
            began, used = time.perf_counter(), time.process_time()
            answer = client.get("/library", said)
            times.append((1000 * (time.perf_counter() - began), said))
            cpu.append(1000 * (time.process_time() - used))
            assert answer.status_code == 200, said
            found += "library-row" in answer.text
            following = re.search(r'after=([0-9.]+)" rel="next"', answer.text)
            if not following:
                break
            said = said | {"after": following[1]}
        with CaptureQueriesContext(connection) as queries:
            client.get("/library", said)
        most = max(most, len(queries))
    times.sort(key=lambda pair: pair[0])
    cpu.sort()

    def at(part: float) -> float:
        return times[min(int(part * len(times)), len(times) - 1)][0]

    is_well = at(0.95) <= GOAL and most <= MOST_QUERIES
    print(
        f"    {name:10} p50 {at(0.5):6.1f}  p95 {at(0.95):6.1f}  p99 {at(0.99):6.1f}  most {at(1):6.1f} ms,"
        f" (CPU of this process p50 {cpu[len(cpu) // 2]:.1f}, p95 {cpu[int(0.95 * len(cpu))]:.1f}),"
        f" {most} queries, {found} of {len(times)} pages found something: {'ok' if is_well else 'MISSED'}"
    )
    for took, said in times[-3:]:
        print(f"               {took:6.1f} ms {said}")
    sys.stdout.flush()
    return is_well


def work(count: int, pages: int) -> int:
    """Fill and measure the database that the environment names."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    import django  # noqa: PLC0415  # the settings are read with it

    django.setup()
    from django.conf import settings  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    settings.ALLOWED_HOSTS = ["*"]
    chance = random.Random(7)
    words = vocabulary(chance)
    began = time.monotonic()
    put_index(is_there=False)
    reader = fill(count, sentences(words, chance), chance)
    put_index(is_there=True)
    print(f"    filled in {time.monotonic() - began:.0f} s", flush=True)
    settle()
    client = Client()
    client.force_login(reader, backend="django.contrib.auth.backends.ModelBackend")
    for _ in range(3):
        client.get("/library", {"q": "warm"})
    # Both are measured, whatever the first says.
    verdicts = [
        measure("filtered", client, filtered, pages),
        measure("full text", client, worded(words), pages),
    ]
    return 0 if all(verdicts) else 1


def put_index(*, is_there: bool) -> None:
    """PostgreSQL makes its index of words much faster at once; the statement is the migration's."""
    from django.db import connection  # noqa: PLC0415  # after the settings

    statement = "DROP INDEX library_words"
    if is_there:
        statement = import_module("research.migrations.0007_library").WORDS["postgresql"][-1]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement)


def settle() -> None:
    """What the databases do by themselves in time."""
    from django.db import connection  # noqa: PLC0415  # after the settings

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE" if connection.vendor == "sqlite" else "VACUUM ANALYZE")


def engines(only: str) -> Iterator[str]:
    yield from (name for name in ("sqlite", "postgres") if not only or name in only.split(","))


def main() -> int:
    options = parse()
    if options.work:
        return work(options.runs, options.pages)
    failed = 0
    for engine in engines(options.only):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-library-")))
            environment = environment_of(engine, folder, stack)
            migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
            subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
            print(f"S9  a library of {options.runs:,} runs on {engine}", flush=True)
            command = [sys.executable, "-m", "bench.library", "--work"]
            command += ["--runs", str(options.runs), "--pages", str(options.pages)]
            failed += subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.library")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--only", default="", help="as in sqlite,postgres")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
