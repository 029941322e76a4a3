from __future__ import annotations

import json
from typing import Any

import pytest

from portal.models.audit import AuditEntry
from portal.services.ledger import balance_of
from research.models.presets import Preset
from research.models.runs import Run
from tests.portal.admin.site import Site, told
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def site() -> Site:
    return Site()


def values_of(preset: Preset, **changes: Any) -> dict[str, Any]:
    """The form as the page shows it, with changes."""
    plain = ("name", "title", "summary", "position", "price", "time_budget", "usual_seconds")
    form = {field: getattr(preset, field) for field in plain}
    form |= {field: json.dumps(getattr(preset, field)) for field in ("aliases", "backends", "parameters")}
    return form | {"enabled": "on" if preset.enabled else ""} | changes


def test_it_stops_a_run_of_anybody_and_gives_the_credits_back(site: Site) -> None:
    who = somebody(5)
    run = ask(who)

    assert told(site.act("cancel", run)) == ["1 asked to stop."]

    run.refresh_from_db()
    assert run.status == "cancelled"
    assert balance_of(who.user_id).available == 5
    assert AuditEntry.objects.filter(action="run.cancelled", actor=site.admin, target=run.public_id).exists()


def test_it_says_that_a_run_had_ended_before(site: Site) -> None:
    run = ask(somebody(5))
    site.act("cancel", run)

    answer = site.act("cancel", run)

    assert "already terminal" in told(answer)[0]


def test_it_retries_as_a_new_linked_run_that_its_user_pays_for(site: Site) -> None:
    who = somebody(5)
    run = ask(who)
    site.act("cancel", run)

    assert told(site.act("retry", run)) == ["1 started anew."]

    retry = Run.objects.get(retry_of=run)
    assert (retry.user_id, retry.question, retry.preset) == (who.user_id, run.question, run.preset)
    assert balance_of(who.user_id).reserved == retry.price


def test_it_retries_no_run_at_work(site: Site) -> None:
    answer = site.act("retry", ask(somebody(5)))

    assert "has ended" in told(answer)[0]
    assert Run.objects.count() == 1


def test_it_edits_a_preset_for_the_runs_to_come(site: Site) -> None:
    preset = Preset.objects.get(name="30m")

    site.change(preset, **values_of(preset, price="2.5", backends='["sonar", "agent"]'))

    run = ask(somebody(5))
    assert (str(run.price), run.backends) == ("2.5", ["sonar", "agent"])
    assert AuditEntry.objects.filter(action="preset.changed", actor=site.admin).exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("aliases", '["fast"]'),
        ("aliases", '"high"'),
        ("aliases", "[1]"),
        ("aliases", "not json"),
        ("name", "5m"),
        ("name", "low"),
        ("backends", '["carrier pigeon"]'),
        ("backends", "{}"),
        ("parameters", "[]"),
        ("parameters", '{"agent": "high"}'),
        ("price", "-1"),
        ("price", "0.00001"),
        ("time_budget", "0"),
        ("enabled", ""),
    ],
)
def test_it_saves_no_preset_that_makes_no_sense(site: Site, field: str, value: str) -> None:
    preset = Preset.objects.get(name="30m")

    answer = site.change(preset, **values_of(preset, **{field: value}))

    assert answer.context["errors"]


def test_it_makes_another_preset_the_default(site: Site) -> None:
    site.act("make_default", Preset.objects.get(name="5m"))

    assert ask(somebody(5)).preset == "5m"
    assert Preset.objects.filter(is_default=True).count() == 1


def test_it_makes_no_preset_the_default_that_is_switched_off(site: Site) -> None:
    preset = Preset.objects.get(name="5m")
    site.change(preset, **values_of(preset, enabled=""))

    answer = site.act("make_default", preset)

    assert told(answer) == ["Choose one preset that is enabled."]
    assert Preset.objects.get(is_default=True).name == "30m"


def test_it_keeps_the_default_preset(site: Site) -> None:
    assert site.look(Preset, "delete", Preset.objects.get(name="30m").pk).status_code == 403
    assert site.look(Preset, "delete", Preset.objects.get(name="5m").pk).status_code == 200
