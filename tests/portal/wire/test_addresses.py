"""Public and private addresses, in all their disguises."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.addresses import is_private_name, is_public

PUBLIC = ["8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:2800:220:1:248:1893:25c8:1946",
          "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"]  # fmt: skip
PRIVATE = [
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "100::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::7f00:1",
    "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1", "2002:a9fe:a9fe::",
    "2002:a00:1::",
    "", "localhost", "example.org", "0x7f000001", "2130706433", "127.1", "1.2.3.4.5", "[::1]",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_it_lets_the_public_internet_pass(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_it_lets_nothing_else_pass(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_it_sees_an_ipv4_address_through_every_wrapping(address: IPv4Address) -> None:
    number = int(address)
    wrapped = (f"::ffff:{address}", f"64:ff9b::{address}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1")

    assert {is_public(one) for one in wrapped} == {is_public(str(address))}


@given(st.text(max_size=40))
def test_it_takes_any_text(text: str) -> None:
    assert is_public(text) in (True, False)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "printer.local", "db.internal", "x.home.arpa"]
)
def test_it_knows_names_of_one_network_alone(host: str) -> None:
    assert is_private_name(host)


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "internal.com", "local", "arpa"])
def test_it_takes_other_names_for_what_they_resolve_to(host: str) -> None:
    assert is_private_name(host) is (host == "local")
