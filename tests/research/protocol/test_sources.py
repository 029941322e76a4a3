from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from portal.wire.urls import normalise
from research.protocol.outcome import Fetched, Finished, Found
from research.protocol.sources import UNNAMED, catalogue, listed, relabelled
from research.protocol.wire_search import read_page

pages = st.lists(
    st.builds(
        Found,
        url=st.sampled_from(
            ["https://e.com/a", "HTTPS://E.com:443/a", "https://e.com/b", "https://e.com/c", "file 7", ""]
        ),
        title=st.sampled_from(["", "A", "B"]),
        number=st.none() | st.integers(-1, 6),
    ),
    max_size=12,
)
reserved_numbers = st.sets(st.integers(0, 8))


def identity(found: Found, among: list[Found]) -> str:
    titles = [page.title for page in among if page.url == found.url and page.title]
    return normalise(found.url) or f"{found.url} {found.title or ''.join(titles[:1] if found.url else ())}"


@given(pages, reserved_numbers)
def test_it_loses_no_source_and_makes_none(found: list[Found], reserved: set[int]) -> None:
    sources = catalogue(found, reserved, "retrieved").sources
    assert len(sources) == len({identity(page, found) for page in found})
    addresses = {normalise(page.url) for page in found} - {None}
    assert {normalise(source.url) for source in sources if source.url} == addresses


@given(pages, reserved_numbers)
def test_it_gives_each_source_its_own_number_in_order(found: list[Found], reserved: set[int]) -> None:
    numbers = [source.number for source in catalogue(found, reserved, "retrieved").sources]
    assert numbers == sorted(set(numbers))
    assert all(number >= 1 for number in numbers)


@given(pages, reserved_numbers)
def test_it_never_gives_a_used_number_to_a_page_that_did_not_have_it(
    found: list[Found], reserved: set[int]
) -> None:
    claims = {(page.number, normalise(page.url)) for page in found}
    used = reserved | {page.number for page in found}
    for source in catalogue(found, reserved, "retrieved").sources:
        if source.number in used:
            assert (source.number, normalise(source.url)) in claims


@given(pages)
def test_it_leads_every_clear_upstream_number_to_its_page(found: list[Found]) -> None:
    known = catalogue(found, set(), "retrieved")
    by_number = {source.number: source for source in known.sources}
    for page in found:
        key = normalise(page.url)
        if key and page.number in known.by_number:
            assert normalise(by_number[known.by_number[page.number]].url) == key


def test_it_keeps_two_numbers_of_one_page() -> None:
    known = catalogue(
        [
            Found("https://e.com/a", "A", number=1),
            Found("https://e.com/b", number=2),
            Found("https://E.com/a", number=3),
        ],
        set(),
        "retrieved",
    )
    assert [source.number for source in known.sources] == [1, 2]
    assert known.by_number == {1: 1, 2: 2, 3: 1}


def test_it_tells_a_number_of_two_pages() -> None:
    known = catalogue(
        [Found("https://e.com/a", number=1), Found("https://e.com/b", number=1)], set(), "retrieved"
    )
    assert known.contested == {1}
    assert known.by_number == {}
    assert [source.number for source in known.sources] == [1, 2]


def test_it_takes_the_first_word_on_each_matter() -> None:
    (source,) = catalogue(
        [
            Found("https://www.e.com/a", number=4),
            Found("https://www.e.com/a", "Title", "snippet", "2026-05-01"),
            Found("https://www.e.com/a", "Other", "other", "2026-06-01"),
        ],
        set(),
        "retrieved",
    ).sources
    assert (source.number, source.title, source.snippet, source.date) == (4, "Title", "snippet", "2026-05-01")


def test_it_names_what_has_no_title_and_never_links_what_must_not_be() -> None:
    known = catalogue(
        [Found("https://www.e.com/a"), Found("javascript:alert(1)"), Found("u.pdf", "My file")],
        set(),
        "retrieved",
    )
    assert [(source.url, source.title) for source in known.sources] == [
        ("https://www.e.com/a", "e.com"),
        ("", UNNAMED),
        ("", "My file"),
    ]


def test_it_follows_the_texts_own_list_before_the_upstreams_numbers() -> None:
    found = [
        Found("https://e.com/a", number=1),
        Found("https://e.com/b", number=2),
        Found("https://e.com/c", number=3),
    ]
    again = relabelled(found, {1: ("https://e.com/b",), 3: ("https://e.com/x", "https://e.com/y")})
    assert [(page.url[-1], page.number) for page in again] == [("a", None), ("b", 1), ("c", None)]


def test_it_lists_what_was_found_and_what_was_opened() -> None:
    finished = Finished(
        "x", found=(Found("https://e.com/a"), Found("", "")), fetched=(Fetched("https://e.com/b", "B"),)
    )
    assert [page.url for page in listed(finished)] == ["https://e.com/a", "https://e.com/b"]


SHAPES = [
    "https://e.com/{}",
    "https://e.com/{}?q=%C3%A9",
    "https://e.com/" + "é" * 1900 + "{}",
    "https://e.com/{}\x07\u202e",
    "https://me:secret@e.com/{}",
    "https:///{}",
    "javascript:alert({})",
    "data:text/html,{}",
    "ftp://e.com/{}",
    "file {}",
]
TOO_LONG = ["https://e.com/{}" + "a" * 5000, "https://e.com/" + "a" * 5000 + "{}"]


def respelt(url: str, spelling: int) -> str:
    """As another list may write the same address."""
    scheme, colon, rest = url.partition(":")
    spellings = [url, f" {url}\n", f"{scheme.upper()}{colon}{rest}", url.replace("//e.com/", "//E.COM/")]
    return spellings[spelling if colon and len(url) < 5000 else spelling % 2]


@given(st.data())
def test_it_neither_loses_nor_doubles_a_page_however_hostile_its_address(data: st.DataObject) -> None:
    """Pages are listed with a title, cited without one, and opened under another, in any spelling."""
    number = data.draw(st.integers(1, 6))
    pages = [data.draw(st.sampled_from(SHAPES + TOO_LONG)).format(page) for page in range(number)]
    found: list[dict[str, str]] = []
    for page, url in enumerate(pages):
        titles = [f"T{page}", "", f"T{page}" if url.startswith("file") else "Other"]
        for title in titles[: data.draw(st.integers(1, 3))]:
            found.append({"url": respelt(url, data.draw(st.integers(0, 3))), "title": title})
    found = data.draw(st.permutations(found))

    sources = catalogue(map(read_page, found), set(), "retrieved").sources

    assert len(sources) == number


@given(st.lists(st.text(min_size=1) | st.text(max_size=9).map("https://e.com/{}".format), max_size=9))
def test_it_makes_one_source_of_an_address_that_is_searched_cited_and_opened(urls: list[str]) -> None:
    found = [Found(url, url) for url in urls]
    cited = [Found(url) for url in urls]
    opened = tuple(Fetched(url, url) for url in urls)

    known = catalogue(listed(Finished("", found=(*cited, *found), fetched=opened)), set(), "retrieved")

    distinct = {normalise(url) or url.strip() for url in urls if url.strip()}
    assert len(known.sources) <= len(distinct)
    assert len(known.sources) >= len({url.casefold() for url in distinct})
