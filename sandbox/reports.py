"""The text of a good day's report: about a thousand words on the question asked, and plainly no research.

It claims nothing about the world. It says how an answer would be reached, in the question's own words, with marks
[1] to [8] on the eight placeholder sources. The same question always gives the same text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from sandbox.topics import Topic

OPENING = (
    "> **This is a simulated report.** The sandbox wrote it, which stands in for a research service while none is "
    "connected. No research was made: nothing was searched, no page was read, and the eight sources are "
    "placeholders that lead nowhere. What you can judge here is how a finished report looks and works."
)
CLOSING = (
    "This was a simulated report on “{question}”. No research was made for it, so please quote nothing from it. "
    "Connect a research service and ask again: the answer will take this place."
)

_LEADS: Mapping[str, str] = {
    "comparison": (
        "It is a comparison, and comparisons go wrong in a familiar way: each side is described at its best, and in "
        "different units. A good answer would first fix the yardsticks, then hold both sides against each of them."
    ),
    "cause": (
        "It asks for causes, and causes are easily confused with company: two things that rise together need not push "
        "each other. A good answer would separate what merely happened at the same time from what was shown to act."
    ),
    "forecast": (
        "It looks ahead, and nobody has data from the future. A good answer would set out what is already under way, "
        "what has been announced, and what is only hoped for, and would give each its own degree of confidence."
    ),
    "advice": (
        "It asks what to do, so the answer depends on who is asking. A good answer would name the circumstances that "
        "tip the scale, and say for each of them which way it tips."
    ),
    "survey": (
        "It asks for an overview, and an overview is mostly a matter of what to leave out. A good answer would find "
        "the few points on which everything else hangs, and give the rest a sentence each."
    ),
}

_FRAMES: Mapping[str, Sequence[str]] = {
    "comparison": (
        "The yardsticks deserve a list of their own before any verdict: cost over the whole life, effort to begin, "
        "effort to leave again, and what happens on a bad day.",
        "A verdict without conditions would be suspect. More useful is a sentence of the form “the one when this "
        "matters most, the other when that does”.",
    ),
    "cause": (
        "Three tests help: whether the cause came first, whether more of it brought more of the effect, and whether "
        "the effect faded when it was taken away.",
        "Rival explanations should be listed with equal care. The one that survives is worth more than the one that "
        "was never challenged.",
    ),
    "forecast": (
        "Past forecasts on the same matter are a cheap and sobering test: those who were right last time, and for the "
        "right reason, deserve more weight.",
        "A range says more than a figure. Where sources give only a figure, a report should say who gave it and what "
        "they stood to gain.",
    ),
    "advice": (
        "The reversible choices can be made quickly and corrected later; the irreversible ones deserve most of the "
        "reading. A report should sort them.",
        "It helps to ask what the people who chose otherwise knew. They are rarely all fools.",
    ),
    "survey": (
        "The newest sources are not always the best ones: a careful older review often explains what a fresh "
        "announcement takes for granted.",
        "Disagreement between sources is a finding too. It shows where the open questions lie.",
    ),
}

_FIRST_VIEWS = (
    "Everything else leans on {first}, so it comes first. Introductions to it tend to agree with each other, often "
    "because they copy each other [1]. A real run would read past them to whoever counted, measured or was there "
    "[3], and note the date of every figure.",
    "The natural place to begin is {first}. Overviews give the vocabulary [1], and the vocabulary gives better "
    "searches. From there a real run would go to the original figures [3], since a number loses its conditions a "
    "little more each time it is quoted.",
    "A reader new to {first} needs its history in three sentences and its present state in five. The history is "
    "easy to find [2]. The present state is where sources part company [3], and where a report earns its keep.",
)
_SECOND_VIEWS = (
    "With {second} the trouble is measurement. Two studies may use the same word for different things [4], and a "
    "case that was studied closely [5] may be the exception. A real run would quote the definition beside the result.",
    "For {second}, method matters more than count: one study that says how it measured [4] outweighs five that do "
    "not. A worked case [5] then shows whether the method survives contact with practice.",
    "About {second} there will be more opinion than evidence. That is no reason to leave the opinions out, but each "
    "should carry its reasons [5], and be set beside what has been measured [4].",
)
_THIRD_VIEWS = (
    "Objections gather around {third} [6]. They should be reported at full strength, in words their authors would "
    "accept, before anything is said against them. The outlook [8] depends on which of them hold.",
    "On {third} a real report would look for the strongest opponent [6] rather than the loudest. What remains "
    "standing afterwards is what the outlook can be built on [8].",
    "It is with {third} that confident answers usually overreach. The objections are known [6]; whether they have "
    "been answered, or only outlived, decides how far the outlook can be trusted [8].",
)

_OPEN_ENDS = (
    "- whether the figures on {first} still hold once they are a year older;\n"
    "- how much of what is said about {second} rests on a single study;\n"
    "- who has looked at {third} without a stake in the result.",
    "- what {first} looks like from the point of view of those who pay for it;\n"
    "- whether {second} would be judged the same way in another place;\n"
    "- what would have to happen for the usual view of {third} to be wrong.",
)


def _pick(options: Sequence[str], topic: Topic, salt: str) -> str:
    digest = hashlib.sha256(f"{salt}\n{topic.question}".encode()).digest()
    return options[digest[0] % len(options)]


def _brief(topic: Topic) -> str:
    return (
        f"## In brief\n\n"
        f"The question was: *{topic.question}* Where you are reading this, a real report would answer it in a few "
        f"sentences. The sandbox has no answer to give. It can show how one would be reached, and which threads it "
        f"would follow [1]:\n\n"
        f"- **{_capital(topic.first)}** would be settled first, because the rest leans on it [1][2].\n"
        f"- **{_capital(topic.second)}** would be traced to whoever measured it, and how [4].\n"
        f"- **{_capital(topic.third)}** would be argued from both sides before any conclusion [6].\n"
    )


def _asked(topic: Topic) -> str:
    others = topic.terms[3:]
    more = (
        f" It also touches on {_listed(others)}, which a real run would follow as side threads."
        if others
        else ""
    )
    return (
        f"## What the question asks\n\n{_LEADS[topic.kind]}\n\n"
        f"Read closely, the question has three parts that need different kinds of evidence: {topic.first}, "
        f"{topic.second} and {topic.third}.{more} Treating them as one is how reports end up long and "
        f"say little [7].\n"
    )


def _gathering(topic: Topic) -> str:
    return (
        f"## How the evidence would be gathered\n\n"
        f"A run works in rounds. Each begins with a few searches, reads the pages that look most useful, and uses "
        f"what it learned to ask better. For this question the rounds would look roughly like this:\n\n"
        f"1. **Orientation.** Search for {topic.first} in general terms, and read one overview [1] and one history "
        f"[2] to learn the vocabulary.\n"
        f"2. **Substance.** Look for figures [3] and for the methods behind them [4], then for a case where "
        f"{topic.second} was examined closely [5].\n"
        f"3. **Challenge.** Search on purpose for those who disagree about {topic.third} [6], and for a review that "
        f"weighs both sides [7].\n\n"
        f"The progress you saw while this run was “working” followed the same pattern. It was played from a script.\n"
    )


def _table(topic: Topic) -> str:
    return (
        f"## Weighing the sources\n\n"
        f"Not every source can carry the same load. The table shows what each of the eight placeholders stands for, "
        f"and how a careful reader would treat the real thing.\n\n"
        f"| Kind of source | What it would be used for | How far to trust it |\n"
        f"|---|---|---|\n"
        f"| Overview [1] | the words used for {_cell(topic.first)} | well, for definitions only |\n"
        f"| Background [2] | how things came to be as they are | well, if it names its own sources |\n"
        f"| Figures [3] | the size of {_cell(topic.first)} | as far as the date and the method go |\n"
        f"| Methods [4] | how {_cell(topic.second)} is measured | well, where it can be repeated |\n"
        f"| Case study [5] | {_cell(topic.second)} in practice | for that case, with care beyond it |\n"
        f"| Objections [6] | the case against {_cell(topic.third)} | as argument, not as proof |\n"
        f"| Review [7] | the balance of the evidence | well, if it says what it left out |\n"
        f"| Outlook [8] | what may change about {_cell(topic.third)} | as one opinion among several |\n"
    )


def _views(topic: Topic) -> str:
    first = _pick(_FIRST_VIEWS, topic, "first").format(first=topic.first)
    second = _pick(_SECOND_VIEWS, topic, "second").format(second=topic.second)
    third = _pick(_THIRD_VIEWS, topic, "third").format(third=topic.third)
    frames = " ".join(_FRAMES[topic.kind])
    return (
        f"## The three threads\n\n"
        f"### {_capital(topic.first)}\n\n{first}\n\n"
        f"### {_capital(topic.second)}\n\n{second}\n\n"
        f"### {_capital(topic.third)}\n\n{third}\n\n"
        f"### Taken together\n\n{frames} A review of the whole [7] would be the place to check that nothing "
        f"important is missing.\n"
    )


def _remaining(topic: Topic) -> str:
    return (
        f"## What would remain open\n\n"
        f"An honest report ends with what it could not find out. For this question a reader might expect to see "
        f"some of the following still unanswered [7][8]:\n\n"
        f"{_pick(_OPEN_ENDS, topic, 'open').format(first=topic.first, second=topic.second, third=topic.third)}\n\n"
        f"If one of these matters to you more than the rest, ask it as a question of its own. Narrow questions get "
        f"better answers, because every search can be spent on them.\n"
    )


def _reading() -> str:
    return (
        "## How to read a real report\n\n"
        "Three habits pay off, whatever the subject. Follow the marks: each number leads to a source, and the source "
        "should say what the sentence says. Look at the dates: an answer is only as fresh as the page it rests on. "
        "And notice what carries no mark at all, since such sentences are the writer's own, and deserve a second "
        "look before they are passed on.\n\n"
        "The same habits can be tried out on this page. Its marks are numbered like real ones and its sources open "
        "in the panel beside the text; they simply have nothing behind them.\n"
    )


def _capital(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]


def _cell(phrase: str) -> str:
    return phrase.replace("|", "\\|")


def _listed(phrases: Sequence[str]) -> str:
    if len(phrases) == 1:
        return phrases[0]
    return ", ".join(phrases[:-1]) + " and " + phrases[-1]


def compose(topic: Topic) -> str:
    """The whole report as Markdown."""
    closing = CLOSING.format(question=topic.question)
    parts = [
        f"# Simulated report: {topic.short}\n\n{OPENING}\n",
        _brief(topic),
        _asked(topic),
        _gathering(topic),
        _table(topic),
        _views(topic),
        _remaining(topic),
        _reading(),
        f"## About this report\n\n{closing}\n",
    ]
    return "\n".join(parts)
