"""The session check, the cookie in all its forms, and what the words of an account do (perplexity-web §3)."""

from __future__ import annotations

from http.cookies import SimpleCookie

import httpx
import pytest

from sandbox.web.accounts import FLAGS, STANDINGS, TIERS, read_traits
from tests.sandbox.visitor import Clock
from tests.sandbox.web.listener import ASK, NAME, WebVisitor, body, is_challenge

USER = {
    "id", "email", "name", "username", "image", "subscription_status", "subscription_tier",
    "subscription_source", "payment_tier",
}  # fmt: skip


def jar(answer: httpx.Response) -> dict[str, str]:
    """What `Set-Cookie` leaves in a jar; a cookie that was taken away is an empty text."""
    found: dict[str, str] = {}
    for line in answer.headers.get_list("set-cookie"):
        for name, morsel in SimpleCookie(line).items():
            found[name] = "" if morsel["max-age"] == "0" else morsel.value
    return found


def merged(before: dict[str, str], answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in {**before, **jar(answer)}.items() if value}


async def check(web: WebVisitor, cookies: dict[str, str]) -> httpx.Response:
    line = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return await web.client.get("/api/auth/session", headers={"cookie": line})


@pytest.mark.parametrize("tier", TIERS)
async def test_it_tells_who_is_logged_in(web: WebVisitor, tier: str) -> None:
    answer = await web.as_(f"sandbox-{tier}-alice").session()
    found = answer.json()
    assert set(found) == {"user", "expires", "preventUsernameRedirect"}
    assert set(found["user"]) == USER
    assert found["user"]["subscription_tier"] == found["user"]["payment_tier"] == tier
    assert found["expires"].endswith("000Z")


@pytest.mark.parametrize(
    "token", ["", "sandbox-expired-alice", "sandbox-", "somebody-elses", "sandbox-pro-a\u00e9"]
)
async def test_it_answers_nobody_with_an_empty_object_and_200(web: WebVisitor, token: str) -> None:
    headers = [(b"cookie", f"{NAME}={token}".encode())]
    answer = await web.client.get("/api/auth/session", headers=headers)
    if token.startswith("sandbox-pro"):
        assert answer.json()["user"]
        return
    assert (answer.status_code, answer.json()) == (200, {})
    assert "set-cookie" not in answer.headers


async def test_it_knows_one_user_by_several_values(web: WebVisitor) -> None:
    users = [
        (await web.as_(f"sandbox-pro-{name}").session()).json()["user"]["id"] for name in ("a.x", "a.y", "b")
    ]
    assert users[0] == users[1] != users[2]


async def test_it_sets_the_cookie_again_and_others_beside_it(web: WebVisitor) -> None:
    answer = await web.as_("sandbox-pro-a.3").session()
    lines = answer.headers.get_list("set-cookie")
    assert lines[0].startswith(f"{NAME}=sandbox-pro-a.3; Path=/; Expires=")
    assert lines[0].endswith("Secure; HttpOnly; SameSite=Lax")
    assert set(jar(answer)) == {NAME, "__cf_bm", "pplx.session-id"}


async def test_it_turns_away_at_every_door_whom_it_does_not_like(web: WebVisitor) -> None:
    for standing, status in (("rejected", 401), ("forbidden", 403), ("blocked", 403), ("challenged", 200)):
        visitor = web.as_(f"sandbox-{standing}-max")
        for answer in (
            await visitor.session(),
            (await visitor.ask("Why?")).response,
            await visitor.send("GET", "/rest/rate-limit/all"),
            await visitor.send("GET", "/rest/models/config?config_schema=v1&version=2.18"),
        ):
            assert answer.status_code == status
            assert is_challenge_or_json(answer, standing)


def is_challenge_or_json(answer: httpx.Response, standing: str) -> bool:
    if standing in ("blocked", "challenged"):
        return is_challenge(answer)
    return answer.headers["content-type"] == "application/json"


# Rotation.


async def test_it_gives_a_rotating_account_a_new_value_each_time(web: WebVisitor) -> None:
    cookies = {NAME: "sandbox-rotating-pro-a", "other": "kept"}
    for serial in (1, 2, 3):
        answer = await check(web, cookies)
        assert answer.json()["user"]["username"] == "rotating-pro-a"
        cookies = merged(cookies, answer)
        assert cookies[NAME] == f"sandbox-rotating-pro-a.{serial}"


@pytest.mark.parametrize(("word", "survives"), [("rotating", 2), ("rotating1", 1), ("rotating4", 4)])
async def test_it_refuses_a_value_once_so_many_newer_ones_were_given_out(
    web: WebVisitor, word: str, survives: int
) -> None:
    lazy = web.as_(f"sandbox-{word}-pro-a")
    logged_in = [bool((await lazy.session()).json()) for _ in range(survives + 2)]
    assert logged_in == [True] * survives + [False] * 2
    assert (await lazy.ask("Why?")).response.status_code == 401


async def test_it_does_not_believe_in_values_that_it_has_not_given_out(web: WebVisitor) -> None:
    assert (await web.as_("sandbox-rotating-pro-a.7").session()).json() == {}


async def test_it_rotates_with_every_answer_of_a_restless_account(web: WebVisitor) -> None:
    visitor = web.as_("sandbox-restless-rotating9-max-a")
    answer = (await visitor.ask("Why?")).response
    assert jar(answer)[NAME] == "sandbox-restless-rotating9-max-a.1"
    assert jar(await visitor.send("GET", "/rest/rate-limit/all"))[NAME].endswith(".2")
    assert jar(await visitor.session())[NAME].endswith(".3")
    assert "set-cookie" not in (await web.as_("sandbox-rotating-max-a").ask("Why?")).response.headers


async def test_it_rotates_nothing_when_the_answer_is_not_for_the_logged_in(web: WebVisitor) -> None:
    answer = await web.as_("sandbox-restless-rotating-expired").send("GET", "/rest/rate-limit/all")
    assert "set-cookie" not in answer.headers


# Cookies in parts.


async def test_it_reads_a_token_in_numbered_parts_in_the_order_of_the_numbers(web: WebVisitor) -> None:
    token = "sandbox-max-somebody-with-a-long-name"
    parts = {f"{NAME}.{number}": token[number * 4 : number * 4 + 4] for number in range(10)}
    backwards = dict(reversed(parts.items()))
    assert (await check(web, backwards)).json()["user"]["subscription_tier"] == "max"


async def test_it_moves_between_parts_and_one_cookie_and_takes_the_others_away(web: WebVisitor) -> None:
    cookies = {NAME: "sandbox-rotating-chunked-max-a"}
    shapes = []
    for _ in range(4):
        answer = await check(web, cookies)
        assert answer.json()["user"]
        cookies = merged(cookies, answer)
        shapes.append(sorted(name.removeprefix(NAME) for name in cookies if name.startswith(NAME)))
    assert shapes == [[""], [".0", ".1", ".2"], [""], [".0", ".1", ".2"]]


async def test_it_logs_out_a_client_that_keeps_parts_beside_a_plain_cookie(web: WebVisitor) -> None:
    cookies = {f"{NAME}.0": "sandbox-max", f"{NAME}.1": "-alice"}
    assert (await check(web, cookies)).json()["user"]
    assert (await check(web, {**cookies, NAME: "sandbox-max-alice"})).json() == {}


async def test_it_gives_the_un_prefixed_name_the_answers_of_the_free_tier_without_a_word(
    web: WebVisitor,
) -> None:
    headers = {"cookie": "next-auth.session-token=sandbox-max-alice"}
    answer = await web.client.post(ASK, json=body("Why?", model_preference="claude48opus"), headers=headers)
    assert answer.status_code == 200
    assert '"display_model":"turbo"' in answer.text
    assert "upsell_information" not in answer.text
    assert (await web.client.get("/api/auth/session", headers=headers)).json() == {}


# Words.


def test_it_knows_every_word_in_any_order() -> None:
    for word in (*TIERS, *STANDINGS, *FLAGS):
        assert read_traits(f"sandbox-some-{word}-body") == read_traits(f"sandbox-{word}")
    traits = read_traits("sandbox-left7-rotating-busy-slots3-free-x")
    assert (traits.tier, set(traits.flags)) == ("free", {"busy"})
    assert (traits.left, traits.rotating, traits.slots) == (7, 2, 3)
    assert read_traits("sandbox-nobody") == read_traits("sandbox-pro-someone")


async def test_it_asks_a_busy_account_to_wait(web: WebVisitor) -> None:
    answer = (await web.as_("sandbox-busy-max").ask("Why?")).response
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert (await web.as_("sandbox-busy-max").session()).json()["user"]


async def test_it_fails_every_third_ask_of_a_flaky_account(web: WebVisitor) -> None:
    statuses = [(await web.as_("sandbox-flaky-max").ask("Why?")).response.status_code for _ in range(6)]
    assert statuses == [200, 200, 503] * 2


async def test_it_answers_no_more_at_once_than_there_are_slots(web: WebVisitor) -> None:
    answer = (await web.as_("sandbox-slots0-max").ask("Why?")).response
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert (await web.as_("sandbox-slots1-max").ask("Why?")).ended


@pytest.mark.parametrize("token", ["sandbox-walled-max", "", "nobodys"])
async def test_it_builds_the_sign_in_wall(web: WebVisitor, token: str) -> None:
    answer = await web.as_(token).ask("Why?", model_preference="gpt55")
    assert answer.last["upsell_information"]["name"] == "logged_out_thread_sign_in"
    assert answer.last["status"] == "COMPLETED"
    assert answer.text.startswith("Sign up")
    assert "upsell_information" not in answer.frames[0]


async def test_it_refuses_the_asks_of_an_expired_session(web: WebVisitor) -> None:
    assert (await web.as_("sandbox-expired-max").ask("Why?")).response.status_code == 401


async def test_it_fills_the_quota_again_on_the_next_day(web: WebVisitor, clock: Clock) -> None:
    visitor = web.as_("sandbox-left1-pro")
    await visitor.ask("Why?", model_preference="gpt55")
    assert (await visitor.quota())["remaining_pro"] == 0
    clock.forward(86400)
    assert (await visitor.quota())["remaining_pro"] == 1
