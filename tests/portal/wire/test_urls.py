from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.urls import LONGEST, host_label, linkable, normalise

addresses = st.one_of(
    st.text(),
    st.text(max_size=30).map("https://example.com/{}".format),
    st.text(min_size=1, max_size=20).map("http://{}.example".format),
    st.text("abc%20~/?#&=é:@.[]-_", max_size=30).map("HTTPS://Example.com:443{}".format),
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTPS://Example.COM/a", "https://example.com/a"),
        ("https://example.com", "https://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("https://example.com./a", "https://example.com/a"),
        ("https://bücher.example/a", "https://xn--bcher-kva.example/a"),
        ("https://BÜCHER.example/a", "https://bücher.example/a"),
        ("https://bu\u0308cher.example/a", "https://bücher.example/a"),
        ("https://例え。jp/", "https://xn--r8jz45g.jp/"),
        ("https://example.com/%7Euser", "https://example.com/~user"),
        ("https://example.com/a%2fb", "https://example.com/a%2Fb"),
        ("https://example.com/é", "https://example.com/%C3%A9"),
        ("https://example.com/a b", "https://example.com/a%20b"),
        (" https://example.com/ ", "https://example.com/"),
        ("https://example.com?q=1", "https://example.com/?q=1"),
    ],
)
def test_it_takes_two_spellings_of_one_page_for_one(one: str, other: str) -> None:
    assert normalise(one) == normalise(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.com/a", "http://example.com/a"),
        ("https://example.com/A", "https://example.com/a"),
        ("https://example.com/a/", "https://example.com/a"),
        ("https://example.com/a?utm_source=x", "https://example.com/a"),
        ("https://example.com/a#part", "https://example.com/a"),
        ("https://example.com:8443/", "https://example.com/"),
        ("http://example.com:443/", "http://example.com/"),
        ("https://www.example.com/", "https://example.com/"),
        ("https://straße.example/", "https://strasse.example/"),
        ("https://example.com/a%2Fb", "https://example.com/a/b"),
        ("https://example.com/%2541", "https://example.com/%41"),
    ],
)
def test_it_keeps_apart_what_only_a_server_could_say_is_the_same(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "example.com",
        "//example.com/a",
        "ftp://example.com/",
        "javascript:alert(1)",
        "data:text/html,x",
        "mailto:a@example.com",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://u:p@example.com/",
        "https://exa mple.com/",
        "https://example.com/\x00",
        "https://example.com/a\nb",
        "https://a..b/",
        "https://example.com:99999/",
        "https://example.com:x/",
        "https://[::1",
        "https://[::1]8080/",
        "http\u017f://a.de",
        "https://example.com/\u202egnp",
        "https://example.com/\ud800",
        'https://example.com/"',
        "https://ex%61mple.com",
        "https://example.com\\@evil.example/",
        f"https://{'a' * 64}.example/",
        "https://example.com/" + "a" * LONGEST,
    ],
)
def test_it_refuses_what_must_not_become_a_link(raw: str) -> None:
    assert linkable(raw) is None
    assert normalise(raw) is None


def test_it_compares_addresses_that_escapes_make_longer_than_addresses_may_be() -> None:
    long = "https://e.com/" + "é" * (LONGEST - 20)
    assert linkable(long) == long
    assert normalise(long) == normalise(long.replace("e.com", "E.com:443"))
    assert normalise(long) != normalise(long + "a")


def test_it_shows_an_address_as_its_author_wrote_it() -> None:
    assert linkable(" HTTPS://Bücher.example/%7ea b ") == "HTTPS://Bücher.example/%7ea%20b"


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("https://www.example.com/a", "example.com"),
        ("https://Sub.Example.com:8443?q#f", "sub.example.com"),
        ("https://bücher.example/", "bücher.example"),
        ("https://[::1]:80/", "[::1]"),
        ("javascript:x", ""),
    ],
)
def test_it_names_the_host_without_www(url: str, label: str) -> None:
    assert host_label(url) == label


@given(addresses)
def test_it_normalises_any_text_once_and_for_all(raw: str) -> None:
    key = normalise(raw)
    if key is not None:
        assert normalise(key) == key
        assert key.isascii()
        assert linkable(raw) is not None


@given(addresses)
def test_it_links_nothing_but_web_addresses(raw: str) -> None:
    url = linkable(raw)
    if url is not None:
        assert url.lower().startswith(("http://", "https://"))
        assert not any(character.isspace() or ord(character) < 32 for character in url)
        assert len(url) <= LONGEST
        assert host_label(raw)
