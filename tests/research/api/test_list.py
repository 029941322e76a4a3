from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from portal.services.principal import Principal
from research.protocol.answer import build_list
from research.queries import list_runs
from research.services.views import summary_of
from tests.research.api.callers import Caller, caller, end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def who() -> Caller:
    return caller(credits=100)


def ids(who: Caller, query: str) -> tuple[list[str], bool]:
    page = who.client.get(f"/v1/agent{query}").json()
    found = [run["id"] for run in page["data"]]
    assert (page["first_id"], page["last_id"]) == ((found[0], found[-1]) if found else (None, None))
    return found, page["has_more"]


def test_it_lists_newest_first_page_by_page(who: Caller) -> None:
    runs = [who.start(f"Question {n}?") for n in range(5)][::-1]
    caller().start()
    assert ids(who, "") == (runs, False)
    assert ids(who, "?limit=2") == (runs[:2], True)
    assert ids(who, f"?limit=2&after={runs[1]}") == (runs[2:4], True)
    assert ids(who, f"?limit=2&after={runs[3]}") == (runs[4:], False)
    assert ids(who, f"?after={runs[4]}") == ([], False)


def test_it_shows_twenty_unless_asked_for_more(who: Caller) -> None:
    for n in range(21):
        who.start(f"Question {n}?", preset="2m")
    assert [len(ids(who, query)[0]) for query in ("", "?limit=100")] == [20, 21]


def test_it_lists_states_and_titles_without_reports(who: Caller) -> None:
    end(who.start("Why is the sky blue?"), text="A long report.")
    response = who.client.get("/v1/agent")
    (run,) = response.json()["data"]
    assert (run["status"], run["sonde"]["title"], run["usage"]["pocket_search"]["steps"]) == (
        "completed",
        "Why is the sky blue?",
        2,
    )
    assert "A long report." not in response.text


def test_it_reads_a_page_in_one_query_and_leaves_the_texts_behind(
    who: Caller, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for n in range(3):
        end(who.start(f"Question {n}?"), text="A long report.")
    asker = Principal(who.user.pk, frozenset())
    with django_assert_num_queries(1) as captured:
        listed = build_list([summary_of(run) for run in list_runs(asker, 20).runs], has_more=False)
    assert len(listed["data"]) == 3
    assert '"text"' not in captured.captured_queries[0]["sql"]


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.5", "", "²", "9999999999"])
def test_it_refuses_a_limit_out_of_range(who: Caller, limit: str) -> None:
    response = who.client.get(f"/v1/agent?limit={limit}")
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "limit must be a whole number from 1 to 100"
    assert response.json()["error"]["param"] == "limit"


@pytest.mark.parametrize("kind", ["malformed", "unknown", "foreign"])
def test_it_refuses_to_go_on_after_what_is_not_the_caller_s(who: Caller, kind: str) -> None:
    after = {"malformed": "x", "unknown": "resp_" + "0" * 32, "foreign": caller().start()}[kind]
    response = who.client.get(f"/v1/agent?after={after}")
    assert response.status_code == 404
    assert response.json()["error"]["param"] == "after"
    assert response.content == who.client.get("/v1/agent?after=y").content


def test_it_has_no_list_at_the_responses_door(who: Caller) -> None:
    response = who.client.get("/v1/responses")
    assert (response.status_code, response.headers["allow"]) == (405, "OPTIONS, POST")
