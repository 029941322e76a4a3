"""The web upstream over real HTTP: what each answer is judged to be, and how long it may take."""

from __future__ import annotations

import asyncio
import time
from dataclasses import astuple
from uuid import RFC_4122, UUID

import pytest
from pytest_django.fixtures import Settings

from portal.services import network
from portal.services.upstreams import WebUpstream
from portal.wire.sse import SseDecoder
from proxy.protocol.delta import Done, Fault, FaultKind, Thread
from proxy.protocol.discovery import UpstreamCatalogue
from proxy.protocol.quota import Quota, SolverFailed
from proxy.protocol.session import TOKEN, SignedIn
from proxy.protocol.web_events import WebAnswer
from proxy.protocol.web_request import Ask
from proxy.upstream import web
from tests.proxy.accounts import session
from tests.proxy.upstream.asked import ask, ids
from tests.proxy.upstream.server import HEAD, SocketServer
from tests.sandbox_server import SandboxServer, free_port

QUESTION = "How do tides come about?"


def test_it_reads_an_answer_to_its_end(sandbox: SandboxServer) -> None:
    told = ask(session(sandbox), QUESTION)

    assert isinstance(told.last, Done)
    assert told.text.strip()
    assert told.last.thread.entry == sandbox.web_entries()[0]["id"]


@pytest.mark.parametrize(
    ("token", "fault"),
    [
        ("sandbox-expired-a", Fault(FaultKind.SIGNED_OUT)),
        ("sandbox-rejected-a", Fault(FaultKind.SIGNED_OUT)),
        ("sandbox-blocked-a", Fault(FaultKind.BLOCKED)),
        ("sandbox-challenged-a", Fault(FaultKind.BLOCKED)),
        ("sandbox-forbidden-a", Fault(FaultKind.FORBIDDEN)),
        ("sandbox-busy-a", Fault(FaultKind.RATE_LIMITED, retry_after=2)),
    ],
)
def test_it_tells_refused_sessions_apart(sandbox: SandboxServer, token: str, fault: Fault) -> None:
    last = ask(session(sandbox, token), QUESTION).last

    assert isinstance(last, Fault)
    assert (last.kind, last.retry_after) == (fault.kind, fault.retry_after)


@pytest.mark.parametrize(
    ("marker", "kind"),
    [
        ("server-error", FaultKind.UNAVAILABLE),
        ("bad-gateway", FaultKind.UNAVAILABLE),
        ("unavailable", FaultKind.UNAVAILABLE),
        ("challenge", FaultKind.BLOCKED),
        ("invalid", FaultKind.REJECTED),
        ("rate-limit", FaultKind.RATE_LIMITED),
        ("drop", FaultKind.CUT),
        ("cut-stream=3", FaultKind.CUT),
        ("upsell", FaultKind.QUOTA),
        ("authwall", FaultKind.SIGNED_OUT),
        ("failed", FaultKind.REFUSED),
    ],
)
def test_it_tells_refused_questions_apart(sandbox: SandboxServer, marker: str, kind: FaultKind) -> None:
    last = ask(session(sandbox), f"{QUESTION} [sandbox:{marker}]", "gpt56_terra").last

    assert isinstance(last, Fault)
    assert last.kind is kind


def test_it_says_that_a_model_is_not_accepted(sandbox: SandboxServer) -> None:
    assert ask(session(sandbox), QUESTION, "no_such_model").last == Fault(
        FaultKind.REJECTED, "unknown model_preference 'no_such_model'"
    )


def test_it_says_that_nobody_is_there() -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    lonely = web.Session(0, "", "free", {TOKEN: "sandbox-a"}, 1, WebUpstream(nowhere, nowhere, sandbox=True))

    assert ask(lonely, QUESTION).last == Fault(FaultKind.UNREACHABLE)


@pytest.mark.parametrize("marker", ["slow=20", "first-frame=20"])
def test_it_waits_so_long_for_the_first_event(
    sandbox: SandboxServer, settings: Settings, marker: str
) -> None:
    settings.CHAT_FIRST_SECONDS = 0.3

    assert ask(session(sandbox), f"{QUESTION} [sandbox:{marker}]").last == Fault(FaultKind.TIMED_OUT)


def test_it_takes_an_upstream_that_only_breathes_for_silent(
    sandbox: SandboxServer, settings: Settings
) -> None:
    settings.CHAT_SILENCE_SECONDS = 0.4
    begun = time.monotonic()

    told = ask(session(sandbox), f"{QUESTION} [sandbox:idle-stream=4] [sandbox:heartbeat=0.05]")

    assert told.last == Fault(FaultKind.TIMED_OUT)
    assert time.monotonic() - begun < 5


def test_it_ends_an_answer_that_never_ends(sandbox: SandboxServer, settings: Settings) -> None:
    settings.CHAT_TOTAL_SECONDS = 0.5

    told = ask(session(sandbox), f"{QUESTION} [sandbox:duration=60] [sandbox:pieces=600]")

    assert told.last == Fault(FaultKind.TIMED_OUT)


def test_it_closes_the_upstream_when_its_caller_leaves(sandbox: SandboxServer) -> None:
    async def leave() -> None:
        async with asyncio.timeout(0.5):
            question = f"{QUESTION} [sandbox:duration=60]"
            opened = await web.ask(session(sandbox), Ask(question, "pplx_pro"), ids())
            assert isinstance(opened, web.Opened)
            try:
                while await opened.read():
                    pass
            finally:
                await opened.close()

    with pytest.raises(TimeoutError):
        network.call(leave())

    assert was_left(sandbox)


def was_left(sandbox: SandboxServer) -> bool:
    """Within two seconds (issue 3)."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        if sandbox.web_requests("/rest/sse/perplexity_ask")[0]["ending"] == "left":
            return True
        time.sleep(0.05)
    return False


def test_it_closes_the_upstream_when_its_caller_leaves_before_the_first_byte() -> None:
    async def leave(server: SocketServer) -> None:
        silent = WebUpstream(server.url, server.url, sandbox=True)
        lonely = web.Session(0, "", "free", {TOKEN: "sandbox-a"}, 1, silent)
        async with asyncio.timeout(0.3):
            await web.ask(lonely, Ask(QUESTION, "pplx_pro"), ids())

    with SocketServer() as server:
        with pytest.raises(TimeoutError):
            network.call(leave(server))

        assert server.was_left()


def test_it_says_whose_session_it_is(sandbox: SandboxServer) -> None:
    verdict, set_cookies = network.call(web.check(session(sandbox, "sandbox-pro-eve")))

    assert isinstance(verdict, SignedIn)
    assert (verdict.email, verdict.tier) == ("pro-eve@sandbox.example", "pro")
    assert any(line.startswith(f"{TOKEN}=") for line in set_cookies)


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("sandbox-expired-a", FaultKind.SIGNED_OUT),
        ("sandbox-rejected-a", FaultKind.SIGNED_OUT),
        ("sandbox-forbidden-a", FaultKind.FORBIDDEN),
        ("sandbox-blocked-a", FaultKind.BLOCKED),
        ("sandbox-challenged-a", FaultKind.BLOCKED),
    ],
)
def test_it_says_why_a_session_is_none(sandbox: SandboxServer, token: str, kind: FaultKind) -> None:
    verdict, set_cookies = network.call(web.check(session(sandbox, token)))

    assert isinstance(verdict, Fault)
    assert verdict.kind is kind
    assert set_cookies == ()


def test_it_reads_no_more_of_an_answer_than_it_could_need() -> None:
    endless = HEAD.replace(b"event-stream", b"json") + b"\r\n" + b" " * (64 * 1024 * 1024)
    with SocketServer(endless) as server:
        lonely = web.Session(
            0, "", "free", {TOKEN: "sandbox-a"}, 1, WebUpstream(server.url, "", sandbox=True)
        )

        verdict, _ = network.call(web.check(lonely))

        assert isinstance(verdict, Fault)
        assert server.was_left()
        assert server.sent < 32 * 1024 * 1024


def test_it_reads_what_is_left(sandbox: SandboxServer) -> None:
    assert network.call(web.read_quota(session(sandbox, "sandbox-pro-a"))) == Quota(600, 20)


def test_it_reads_what_is_left_through_flaresolverr_where_cloudflare_stands(sandbox: SandboxServer) -> None:
    gated = session(sandbox, "sandbox-pro-gated-a")

    assert network.call(web.read_quota(gated)) == Fault(FaultKind.BLOCKED)
    assert network.call(web.solve_quota(gated)) == Quota(600, 20)


@pytest.mark.parametrize("flag", ["unsolved", "halfsolved"])
def test_it_believes_no_page_without_counters(sandbox: SandboxServer, flag: str) -> None:
    solved = network.call(web.solve_quota(session(sandbox, f"sandbox-pro-{flag}-a")))

    assert isinstance(solved, SolverFailed)
    assert solved.reason


def test_it_reads_the_catalogue(sandbox: SandboxServer) -> None:
    catalogue = network.call(web.read_catalogue(session(sandbox)))

    assert isinstance(catalogue, UpstreamCatalogue)
    assert catalogue.has("gpt56_terra")


def test_it_stops_and_removes_what_it_asked(sandbox: SandboxServer) -> None:
    last = ask(session(sandbox), QUESTION).last
    assert isinstance(last, Done)

    assert network.call(web.terminate(session(sandbox), last.thread, "turbo")) is None
    assert network.call(web.delete(session(sandbox), last.thread)) is None

    assert sandbox.web_entries()[0]["deleted_at"] is not None
    gone = network.call(web.delete(session(sandbox), last.thread))
    assert isinstance(gone, Fault)


def test_it_cannot_remove_what_is_not_there(sandbox: SandboxServer) -> None:
    gone = network.call(web.delete(session(sandbox), Thread("no-such-entry", token="no-such-token")))

    assert isinstance(gone, Fault)
    assert gone.kind is FaultKind.FORBIDDEN


async def taken_up(session: web.Session, thread: Thread) -> Done | Fault:
    opened = await web.reconnect(session, thread, "turbo")
    if isinstance(opened, Fault):
        return opened
    answer, decoder = WebAnswer("turbo"), SseDecoder()
    try:
        while chunk := await opened.read():
            for record in decoder.feed(chunk):
                answer.read(record)
    finally:
        await opened.close()
    assert answer.over
    return answer.so_far()


def test_it_takes_an_answer_up_again(sandbox: SandboxServer) -> None:
    before = ask(session(sandbox), QUESTION).last
    assert isinstance(before, Done)

    again = network.call(taken_up(session(sandbox), before.thread))

    assert isinstance(again, Done)
    assert (again.answer, again.sources) == (before.answer, before.sources)


@pytest.mark.parametrize("entry", ["no-such-entry", "../perplexity_ask", "a/b?c#d"])
def test_it_finds_no_answer_to_take_up_where_there_is_none(sandbox: SandboxServer, entry: str) -> None:
    gone = network.call(taken_up(session(sandbox), Thread(entry)))

    assert isinstance(gone, Fault)
    assert gone.kind in (FaultKind.FORBIDDEN, FaultKind.REJECTED)


def test_it_draws_fresh_ids_as_browsers_do() -> None:
    told = [text for _ in range(200) for text in astuple(web.new_ids())]

    assert len(set(told)) == 800
    for text in told:
        assert (str(UUID(text)), UUID(text).version, UUID(text).variant) == (text, 4, RFC_4122)
