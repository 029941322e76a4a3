from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.wire.errors import NotFound
from research.models.presets import Preset
from research.models.runs import Run
from research.protocol.states import State
from research.queries import ENOUGH_HISTORY, find_run, list_runs, usual_seconds, usual_times
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db


def history(preset: str, seconds: list[int]) -> None:
    """Completed runs of a preset that took so long, the last one newest."""
    who = somebody(credits=1000)
    for age, length in enumerate(reversed(seconds)):
        run = ask(who, preset=preset)
        end = timezone.now() - timedelta(minutes=age)
        Run.objects.filter(pk=run.pk).update(
            state=State.COMPLETED,
            next_run_at=None,
            submitted_at=end - timedelta(seconds=length),
            completed_at=end,
        )


def test_it_believes_the_preset_until_there_is_enough_history() -> None:
    preset = Preset.objects.get(name="30m")
    history("30m", [100] * (ENOUGH_HISTORY - 1))
    assert usual_seconds(preset) == preset.usual_seconds
    assert usual_times([preset]) == {"30m": preset.usual_seconds}


def test_it_takes_the_median_of_the_presets_own_history() -> None:
    history("30m", [100, 200, 300, 400, 5000])
    history("2m", [10] * ENOUGH_HISTORY)
    deep, quick = (Preset.objects.get(name=name) for name in ("30m", "2m"))
    assert (usual_seconds(deep), usual_seconds(quick)) == (300, 10)
    assert usual_times([deep, quick]) == {"30m": 300, "2m": 10}


def test_it_pages_through_all_runs_once_and_newest_first() -> None:
    who = somebody(credits=100)
    moment = timezone.now()
    for _ in range(7):
        ask(who)
    Run.objects.update(created_at=moment)  # the id breaks the tie
    seen: list[Run] = []
    while True:
        page = list_runs(who, 3, seen[-1].pk if seen else None)
        seen += page.runs
        if not page.has_more:
            break
    assert len({run.pk for run in seen}) == len(seen) == 7
    assert [run.pk for run in seen] == sorted((run.pk for run in seen), reverse=True)


def test_it_lists_only_the_runs_that_stand_as_asked() -> None:
    who = somebody(credits=100)
    waiting, ended = ask(who), ask(who)
    Run.objects.filter(pk=ended.pk).update(state="failed", completed_at=timezone.now(), next_run_at=None)
    for statuses, found in (
        (["queued"], [waiting]),
        (["in_progress"], []),
        (["failed"], [ended]),
        (["failed", "cancelled"], [ended]),
        (["queued", "failed"], [ended, waiting]),
    ):
        assert list_runs(who, 10, statuses=statuses).runs == found


def test_it_shows_nobody_the_runs_of_others_nor_deleted_ones() -> None:
    mine, other = somebody(), somebody()
    theirs, gone = ask(other), ask(mine)
    Run.objects.filter(pk=gone.pk).update(hidden_at=timezone.now())
    assert list_runs(mine, 10).runs == []
    for run_id in (theirs.pk, gone.pk, None):
        with pytest.raises(NotFound) as answer:
            find_run(mine, run_id)
        assert answer.value.body()["error"]["code"] == "not_found"
