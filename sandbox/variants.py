"""The ways in which a marker bends a report's text."""

from __future__ import annotations

import re

from sandbox.scenarios import Script
from sandbox.sources import ODD_URLS
from sandbox.topics import Topic

_MARK = re.compile(r"\[(\d+)\]")

_THOUGHT = "The user asks a question. This is the sandbox, so there is nothing to think about [1]."
_ARABIC = """# تقرير تجريبي: {short}

> **هذا تقرير تجريبي.** كتبه صندوق الرمل ولم يُجرَ أي بحث. المصادر الثمانية أدناه ليست حقيقية.

## الخلاصة

كان السؤال: *{question}* ويُظهر هذا النص كيف يبدو تقرير مكتوب من اليمين إلى اليسار [1][2].

- النقطة الأولى تحمل علامة [3] ورقماً مثل 42.
- النقطة الثانية تحمل اسماً لاتينياً هو SQLite وعلامة [4].

| المصدر | الاستعمال |
|---|---|
| نظرة عامة [5] | التعريفات |
| مراجعة [6] | الموازنة بين الأدلة |

## الخاتمة

كان هذا تقريراً تجريبياً ولم يُجرَ أي بحث [7][8].
"""
_HOSTILE = """
## Hostile content

<script>alert('script')</script>
<img src="https://example.org/tracker.gif" onerror="alert('onerror')">
<iframe src="https://example.org/frame"></iframe>
<a href="javascript:alert('a')">a link that runs</a> <b onmouseover="alert('over')">bold</b>
<style>body{display:none}</style><form action="https://example.org/steal"><input name="password"></form>

![tracker](https://example.org/pixel.png?id=secret) [click](javascript:alert('markdown'))
[data](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [vb](vbscript:msgbox(1))
<https://example.org/"onmouseover="alert(1)> &lt;script&gt;alert(2)&lt;/script&gt; [1]

`<script>alert('code')</script>`

| <img src=x onerror=alert(3)> | **cell** |
|---|---|
| <svg onload=alert(4)> | [ref][evil] |

[evil]: javascript:alert('reference')
"""
_RANGE = """
A mark below the first source [0], one beyond the last [14], a real one [8], and a huge one [99999999999].
"""
_GROUPS = """
Marks in groups: a list [1,2], a spaced list [3, 4], a span [1-3], a dash [5–7], a pair [4][5], twice [6][6].
"""
_CODE = """
Marks that are none: `array[1]`, ``a [2] b``, a link [text [3]](https://example.org/sandbox/link),
[4](https://example.org/sandbox/numbered), an image ![5](https://example.org/sandbox/a.png), escaped \\[6\\].

```python
value = rows[7]  # [8]
```

    indented [1]

A footnote[^1] and a task list follow, and then one true mark [2].

- [ ] undone
- [x] done

[^1]: The footnote's text.
"""
_LINKED = '\nSee [the overview]({first}) and [the review]({second} "with a title"), or <{first}>.\n'
_ODD = """
Bare links at the edge of punctuation: {0}. In brackets ({1}), in quotes “{2}”, bold **{3}**, before a
colon {4}: and at the end {5}! Twice the same: {6}, {7}; angled <{6}>; in a link [odd]({0})
and with a mark {6}[7].
Without a scheme: www.example.org/bare. Not a link: example.org, http://, https:///nothing.
"""


def unmarked(text: str) -> str:
    return _MARK.sub("", text)


def _thinking(text: str, script: Script) -> str:
    if "think" in script or "think-two" in script:
        text = f"<think>\n{_THOUGHT}\n</think>\n\n{text}"
    if "think-two" in script:
        head, middle, tail = text.partition("\n## What the question asks")
        text = f"{head}\n<think>A second thought.</think>\n{middle}{tail}"
    if "think-unclosed" in script:
        text = f"<think>\n{_THOUGHT}\n\n{text}"
    return text


def _marked(text: str, script: Script, urls: tuple[str, ...]) -> str:
    if "marks-web" in script:
        text = _MARK.sub(r"[web:\1]", text)
    if "marks-links" in script:
        text = _MARK.sub(lambda mark: f"([source]({urls[int(mark[1]) - 1]}))", text)
        text += _LINKED.format(first=urls[0], second=urls[6])
    for marker, more in (("marks-range", _RANGE), ("marks-groups", _GROUPS), ("marks-code", _CODE)):
        if marker in script:
            text += more
    return text


def _huge(text: str, size: int) -> str:
    sections = [text]
    length = len(text.encode())
    while length < size:
        sections.append(
            f"\n## Filler {len(sections)}\n\n" + (text.partition("## What the question asks")[2] or text)
        )
        length += len(sections[-1].encode())
    return "".join(sections).encode()[:size].decode(errors="ignore")


def dress(text: str, topic: Topic, script: Script, urls: tuple[str, ...]) -> str:
    """The report as the script's markers bend it; `urls` are the eight addresses its marks stand for."""
    if "empty" in script:
        return ""
    if "right-to-left" in script:
        text = _ARABIC.format(short=topic.short, question=topic.question)
    if "hostile" in script:
        text += _HOSTILE
    if "urls-odd" in script:
        text += _ODD.format(*ODD_URLS)
    text = _marked(text, script, urls)
    if "no-sources" in script or "no-sources-links" in script:
        text = unmarked(text)
    if "no-sources-links" in script:
        text += "\n## Links\n\n" + "\n".join(f"- {url}" for url in urls) + "\n"
    if "huge" in script:
        text = _huge(text, int(script.number("huge", 200)) * 1024)
    text = _thinking(text, script)
    return text[: len(text) // 2] if "incomplete" in script else text
