"""The text of a good day's report: about a thousand words on the question asked, and plainly no research.

It claims nothing about the world. It says how an answer would be reached, in the question's own words, with
marks [1] to [8] on the eight placeholder sources. The same question always gives the same text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from sandbox.topics import Topic

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")


def _prose(text: str) -> str:
    """One paragraph, written over several lines."""
    return " ".join(text.split())


_OPENING = "> " + _prose("""
    **This is a simulated report.** It comes from the sandbox, which stands in for a research service while
    none is connected. No research was made: nothing was searched, no page was read, and the eight sources
    are placeholders that lead nowhere. What it shows is how a finished report looks and works.
    """)
_CLOSING = _prose("""
    This was a simulated report on “{question}”. No research was made for it, so please quote nothing from
    it. Connect a research service and ask again: the answer will take this place.
    """)

_LEADS: Mapping[str, str] = {
    "comparison": _prose("""
        It is a comparison, and comparisons go wrong in a familiar way: each side is described at its best,
        and in different units. A good answer would first fix the yardsticks, then hold both sides against
        each of them.
        """),
    "cause": _prose("""
        It asks for causes, and causes are easily confused with company: two things that rise together need
        not push each other. A good answer would separate what merely happened at the same time from what
        was shown to act.
        """),
    "forecast": _prose("""
        It looks ahead, and nobody has data from the future. A good answer would set out what is already
        under way, what has been announced, and what is only hoped for, and would give each its own degree
        of confidence.
        """),
    "advice": _prose("""
        It asks what to do, so the answer depends on who is asking. A good answer would name the
        circumstances that tip the scale, and say for each of them which way it tips.
        """),
    "survey": _prose("""
        It asks for an overview, and an overview is mostly a matter of what to leave out. A good answer
        would find the few points on which everything else hangs, and give the rest a sentence each.
        """),
}
_FRAMES: Mapping[str, str] = {
    "comparison": _prose("""
        The yardsticks deserve a list of their own before any verdict: cost over the whole life, effort to
        begin, effort to leave again, and what happens on a bad day. A verdict without conditions would be
        suspect. More useful is a sentence of the form “the one when this matters most, the other when that
        does”.
        """),
    "cause": _prose("""
        Three tests help: whether the cause came first, whether more of it brought more of the effect, and
        whether the effect faded when it was taken away. Rival explanations should be listed with equal
        care. The one that survives is worth more than the one that was never challenged.
        """),
    "forecast": _prose("""
        Past forecasts on the same matter are a cheap and sobering test: those who were right last time, and
        for the right reason, deserve more weight. A range says more than a figure. Where sources give only
        a figure, a report should say who gave it and what they stood to gain.
        """),
    "advice": _prose("""
        The reversible choices can be made quickly and corrected later; the irreversible ones deserve most
        of the reading. A report should sort them. It also helps to ask what the people who chose otherwise
        knew, since they are rarely all fools.
        """),
    "survey": _prose("""
        The newest sources are not always the best ones: a careful older review often explains what a fresh
        announcement takes for granted. Disagreement between sources is a finding too. It shows where the
        open questions lie.
        """),
}
_FIRST_VIEWS = (
    _prose("""
        Everything else leans on {first}, so this is where to begin. Introductions tend to agree with each
        other, often because they copy each other [1]. A real run would read past them to whoever counted,
        measured or was there [3], and note the date of every figure.
        """),
    _prose("""
        The natural place to begin is {first}. Overviews give the vocabulary [1], and the vocabulary gives
        better searches. From there a real run would go to the original figures [3], since a number loses
        its conditions a little more each time it is quoted.
        """),
    _prose("""
        For a reader new to {first}, three sentences of history and five on the present state would do. The
        history is easy to find [2]. The present state is where sources part company [3], and where a report
        earns its keep.
        """),
)
_SECOND_VIEWS = (
    _prose("""
        With {second} the trouble is measurement. Two studies may use the same word for different things
        [4], and a case that was studied closely [5] may be the exception. A real run would quote the
        definition beside the result.
        """),
    _prose("""
        For {second}, method matters more than count: one study that says how it measured [4] outweighs five
        that do not. A worked case [5] then shows whether the method survives contact with practice.
        """),
    _prose("""
        About {second} there will be more opinion than evidence. That is no reason to leave the opinions
        out, but each should carry its reasons [5], and be set beside what has been measured [4].
        """),
)
_THIRD_VIEWS = (
    _prose("""
        Objections gather around {third} [6]. They should be reported at full strength, in words their
        authors would accept, before anything is said against them. The outlook [8] depends on which of them
        hold.
        """),
    _prose("""
        On {third} a real report would look for the strongest opponent [6] rather than the loudest. What
        remains standing afterwards is what the outlook can be built on [8].
        """),
    _prose("""
        It is with {third} that confident answers usually overreach. The objections are known [6]; whether
        they have been answered, or only outlived, decides how far the outlook can be trusted [8].
        """),
)
_OPEN_ENDS = (
    "- whether the figures on {first} would still hold a year from now;\n"
    "- how much of what is said about {second} rests on a single study;\n"
    "- who has looked at {third} without a stake in the result.",
    "- how {first} would be seen by those who pay the bill;\n"
    "- whether {second} would be judged the same way in another place;\n"
    "- what would have to happen for the usual view of {third} to be wrong.",
)


def _pick(options: Sequence[str], topic: Topic, salt: str) -> str:
    digest = hashlib.sha256(f"{salt}\n{topic.question}".encode()).digest()
    chosen = options[digest[0] % len(options)]
    return chosen.format(first=topic.first, second=topic.second, third=topic.third)


def plain_text(text: str) -> str:
    """Text of the asker's, safe from being read as Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def _capital(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]


def _listed(phrases: Sequence[str]) -> str:
    return phrases[0] if len(phrases) == 1 else ", ".join(phrases[:-1]) + " and " + phrases[-1]


def _brief(topic: Topic) -> str:
    opening = _prose("""
        Where you are reading this, a real report would answer in a few sentences. The sandbox has no answer
        to give. It can show how one would be reached, and which threads it would follow [1]:
        """)
    return (
        f"## In brief\n\nThe question was: *{plain_text(topic.question)}* {opening}\n\n"
        f"- **{_capital(topic.first)}** would be settled first, because the rest leans on it [1][2].\n"
        f"- **{_capital(topic.second)}** would be traced to whoever measured it, and how [4].\n"
        f"- **{_capital(topic.third)}** would be argued from both sides before any conclusion [6].\n"
    )


def _asked(topic: Topic) -> str:
    others = topic.terms[3:]
    more = f"It also touches on {_listed(others)}, to be followed as side threads." if others else ""
    parts = _prose(f"""
        Read closely, the question has three parts that need different kinds of evidence: {topic.first},
        {topic.second} and {topic.third}. {more} Treating them as one is how reports end up long and say
        little [7].
        """)
    return f"## What the question asks\n\n{_LEADS[topic.kind]}\n\n{parts}\n"


def _gathering(topic: Topic) -> str:
    opening = _prose("""
        A run works in rounds. Each begins with a few searches, reads the pages that look most useful, and
        uses what it learned to ask better. For this question the rounds would look roughly like this:
        """)
    return (
        f"## How the evidence would be gathered\n\n{opening}\n\n"
        f"1. **Orientation.** Search for {topic.first} in general terms, and read one overview [1] and one "
        f"history [2] to learn the vocabulary.\n"
        f"2. **Substance.** Look for figures [3] and for the methods behind them [4], then for a case where "
        f"{topic.second} came under close examination [5].\n"
        f"3. **Challenge.** Search on purpose for those who disagree about {topic.third} [6], and for a "
        f"review that weighs both sides [7].\n\n"
        f"The progress shown while this run was “working” followed the same pattern. It was played from a "
        f"script.\n"
    )


def _table(topic: Topic) -> str:
    opening = _prose("""
        Not every source can carry the same load. The table shows what each of the eight placeholders stands
        for, and how a careful reader would treat the real thing.
        """)
    return (
        f"## Weighing the sources\n\n{opening}\n\n"
        f"| Kind of source | What it would be used for | How far to trust it |\n"
        f"|---|---|---|\n"
        f"| Overview [1] | the words used for {topic.first} | well, for definitions only |\n"
        f"| Background [2] | how things came to be as they are | well, if it names its own sources |\n"
        f"| Figures [3] | numbers on {topic.first} | as far as the date and the method go |\n"
        f"| Methods [4] | ways to measure {topic.second} | well, where they can be repeated |\n"
        f"| Case study [5] | {topic.second}, seen up close | for that case, with care beyond it |\n"
        f"| Objections [6] | the case against {topic.third} | as argument, not as proof |\n"
        f"| Review [7] | the balance of the evidence | well, if it says what it left out |\n"
        f"| Outlook [8] | what may change about {topic.third} | as one opinion among several |\n"
    )


def _views(topic: Topic) -> str:
    return (
        f"## The three threads\n\n"
        f"### {_capital(topic.first)}\n\n{_pick(_FIRST_VIEWS, topic, 'first')}\n\n"
        f"### {_capital(topic.second)}\n\n{_pick(_SECOND_VIEWS, topic, 'second')}\n\n"
        f"### {_capital(topic.third)}\n\n{_pick(_THIRD_VIEWS, topic, 'third')}\n\n"
        f"### Taken together\n\n{_FRAMES[topic.kind]} A review of the whole [7] would be the place to check "
        f"that nothing important is missing.\n"
    )


def _remaining(topic: Topic) -> str:
    opening = _prose("""
        An honest report ends with what it could not find out. For this question a reader might expect to
        see some of the following still unanswered [7][8]:
        """)
    closing = _prose("""
        If one of these matters to you more than the rest, ask it as a question of its own. Narrow questions
        get better answers, because every search can be spent on them.
        """)
    return f"## What would remain open\n\n{opening}\n\n{_pick(_OPEN_ENDS, topic, 'open')}\n\n{closing}\n"


def _reading() -> str:
    habits = _prose("""
        Three habits pay off, whatever the subject. Follow the marks: each number leads to a source, and the
        source should say what the sentence says. Look at the dates: an answer is only as fresh as the page
        it rests on. And notice what carries no mark at all, since such sentences are the writer's own, and
        deserve a second look before they are passed on.
        """)
    here = _prose("""
        The same habits can be tried out here. The marks in this text are numbered like real ones, and each
        leads to an entry in the list of sources. The entries simply have nothing behind them.
        """)
    return f"## How to read a real report\n\n{habits}\n\n{here}\n"


def compose(topic: Topic) -> str:
    """The whole report as Markdown."""
    parts = [
        f"# Simulated report: {plain_text(topic.short)}\n\n{_OPENING}\n",
        _brief(topic),
        _asked(topic),
        _gathering(topic),
        _table(topic),
        _views(topic),
        _remaining(topic),
        _reading(),
        f"## About this report\n\n{_CLOSING.format(question=plain_text(topic.question))}\n",
    ]
    return "\n".join(parts)
