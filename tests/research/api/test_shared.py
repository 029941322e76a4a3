"""What was given may be read at every door that reads, and acted on at none (SPEC 2.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from portal.models.teams import Membership
from portal.models.users import User
from portal.services.principal import principal_of
from portal.services.teams import leave_team
from portal.wire.errors import NotFound
from portal.wire.sse import SseDecoder
from research.mcp_tools.runs import read_report
from research.services.sharing import share_run, take_back_run
from tests.portal.people import a_team
from tests.research.api.callers import Caller, caller, end, run_of
from tests.research.api.test_strangers import shown
from tests.research.mcp_tools.calling import Agent

pytestmark = pytest.mark.django_db(transaction=True)
UNKNOWN = "resp_" + "0" * 32
READING = (
    *("/v1/agent/{}", "/v1/responses/{}", "/v1/responses/{}/input_items", "/v1/async/sonar/{}"),
    "/v1/responses/{}?stream=true",
)
ACTING = (
    *(("POST", "/v1/agent/{}/cancel"), ("POST", "/v1/responses/{}/cancel")),
    ("DELETE", "/v1/responses/{}"),
)
LISTS = ("/v1/agent", "/v1/async/sonar")


@pytest.fixture
def owner() -> Caller:
    who = caller()
    User.objects.filter(pk=who.user.pk).update(name="Ada")
    return who


@pytest.fixture
def reader(owner: Caller) -> Caller:
    who = caller()
    Membership.objects.filter(user__in=(owner.user, who.user)).update(team=a_team())
    return who


def given(owner: Caller, **fields: Any) -> str:
    run = owner.start(metadata={"ours": "alone"}, instructions="Whisper.", **fields)
    share_run(principal_of(owner.user), run_of(run).pk)
    return run


@pytest.mark.parametrize("path", READING)
def test_it_reads_what_was_given_until_it_is_taken_back(owner: Caller, reader: Caller, path: str) -> None:
    run = given(owner)
    end(run)

    assert reader.client.get(path.format(run)).status_code == 200
    take_back_run(principal_of(owner.user), run_of(run).pk)

    theirs, unknown = (shown(reader.client.get(path.format(name))) for name in (run, UNKNOWN))
    assert theirs == unknown
    assert theirs[0] == 404


def test_it_ends_with_the_membership_of_either(owner: Caller, reader: Caller) -> None:
    run, other = given(owner), given(reader)
    leave_team(principal_of(reader.user), Membership.objects.get(user=reader.user).team)

    assert reader.client.get(f"/v1/agent/{run}").status_code == 404
    assert owner.client.get(f"/v1/agent/{other}").status_code == 404


def test_it_says_whose_it_is_and_nothing_that_they_sent_along_for_themselves(
    owner: Caller, reader: Caller
) -> None:
    first = owner.start()
    end(first)
    run = given(owner, previous_response_id=first)
    end(run)

    told = reader.client.get(f"/v1/responses/{run}").json()
    assert told["output_text"] == "It scatters [1]."
    assert told["sonde"]["notes"] == [
        "Ada asked this and shared it with the team: it can be read, and stays theirs."
    ]
    assert (told["metadata"], told["instructions"], told["previous_response_id"]) == ({}, None, None)

    stream = SseDecoder().feed(reader.client.get(f"/v1/responses/{run}?stream=true").content)
    for record in (stream[0], stream[-1]):
        seen = json.loads(record.data)["response"]
        assert (seen["metadata"], seen["instructions"], seen["previous_response_id"]) == ({}, None, None)
    own = owner.client.get(f"/v1/responses/{run}").json()
    assert own["sonde"]["notes"] == []
    assert own["metadata"] == {"ours": "alone"}


@pytest.mark.parametrize(("method", "path"), ACTING)
def test_it_answers_a_reader_who_acts_as_for_an_unknown_id(
    owner: Caller, reader: Caller, method: str, path: str
) -> None:
    run = given(owner)

    theirs, unknown = (shown(reader.client.request(method, path.format(name))) for name in (run, UNKNOWN))

    assert theirs == unknown
    assert theirs[0] == 404
    assert run_of(run).cancel_requested_at is None
    assert run_of(run).hidden_at is None


def test_it_goes_on_from_nothing_of_others(owner: Caller, reader: Caller) -> None:
    run = given(owner)
    end(run)

    for name in (run, UNKNOWN):
        asked = {"input": "And then?", "previous_response_id": name}
        answer = reader.client.post("/v1/agent", json=asked)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "No response with this id exists."


@pytest.mark.parametrize("path", LISTS)
def test_it_lists_one_s_own_only(owner: Caller, reader: Caller, path: str) -> None:
    run = given(owner)

    assert run not in reader.client.get(path).text
    assert run in owner.client.get(path).text


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("tool", "named"), [("get_research", "id"), ("pplx_deep_research_check", "job_id")])
def test_it_lets_a_model_read_and_tells_it_whose_it_is(
    owner: Caller, reader: Caller, tool: str, named: str, ended: bool
) -> None:
    run, model = given(owner), Agent(principal_of(reader.user))
    if ended:
        end(run)

    told = model.call(tool, **{named: run})
    assert not told.is_error
    assert "Ada asked this and shared it with the team" in told.text
    assert model.error("cancel_research", id=run) == model.error("cancel_research", id=UNKNOWN)
    assert model.structured("list_research")["runs"] == []

    take_back_run(principal_of(owner.user), run_of(run).pk)
    assert model.error(tool, **{named: run}) == model.error(tool, **{named: UNKNOWN})


def test_it_opens_the_report_as_a_resource_as_long_as_it_is_shared(owner: Caller, reader: Caller) -> None:
    run, who = given(owner), principal_of(reader.user)
    end(run)

    assert async_to_sync(read_report)(who, run) == "It scatters [1]."
    take_back_run(principal_of(owner.user), run_of(run).pk)
    with pytest.raises(NotFound):
        async_to_sync(read_report)(who, run)
