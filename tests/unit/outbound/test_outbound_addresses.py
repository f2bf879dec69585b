"""No name that an account chooses leads a webhook into this machine's own networks."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.outbound.addresses import Guard

PRIVATE = (
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "0.0.0.0/8",
    "169.254.0.0/16", "192.0.2.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
PRIVATE_6 = (
    "::/128", "::1/128", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32",
    "2001::/32", "64:ff9b:1::/48", "100::/64", "::/96",
)  # fmt: skip

everywhere = Guard(["0.0.0.0/0", "::/0"])
nowhere = Guard()


def in_network(text: str) -> st.SearchStrategy[str]:
    network = ip_network(text)
    first, last = int(network[0]), int(network[-1])
    return st.integers(first, last).map(lambda n: str(type(network[0])(n)))


private_4 = st.one_of([in_network(text) for text in PRIVATE])
private_6 = st.one_of([in_network(text) for text in PRIVATE_6])
any_4 = st.integers(0, 2**32 - 1).map(IPv4Address)


def wrapped(address: IPv4Address) -> list[str]:
    """The ways in which an IPv6 address can stand for an IPv4 one."""
    number = int(address)
    return [
        str(IPv6Address(0xFFFF << 32 | number)),
        str(IPv6Address(int(IPv6Address("64:ff9b::")) | number)),
        str(IPv6Address(0x2002 << 112 | number << 80 | 1)),
    ]


@given(private_4 | private_6)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not nowhere.permits(address, 443, is_tls=True)


@given(any_4)
def test_an_ipv4_address_is_judged_alike_in_every_disguise(address: IPv4Address) -> None:
    plain = nowhere.permits(str(address), 443, is_tls=True)
    for disguise in wrapped(address):
        assert nowhere.permits(disguise, 443, is_tls=True) == plain


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111"])
def test_public_addresses_are_reached_by_tls_only(address: str) -> None:
    assert nowhere.permits(address, 443, is_tls=True)
    assert nowhere.permits(address, 8443, is_tls=True)
    assert not nowhere.permits(address, 80, is_tls=False)
    assert not nowhere.permits(address, 25, is_tls=True)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254",
        "100.100.100.200", "168.63.129.16", "192.0.0.192", "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "224.0.0.1", "ff02::1", "0.0.0.0", "::",
        "255.255.255.255",
    ],
)  # fmt: skip
def test_metadata_and_link_local_are_refused_even_where_all_is_allowed(address: str) -> None:
    assert not everywhere.permits(address, 443, is_tls=True)


def test_a_listed_network_is_reached_on_any_port_with_and_without_tls() -> None:
    guard = Guard(["10.1.0.0/16", "fd12::/16"])
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd12::1"):
        assert guard.permits(address, 80, is_tls=False)
        assert guard.permits(address, 25, is_tls=True)
    assert not guard.permits("10.2.0.1", 443, is_tls=True)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "1.2.3.4.5", "[::1]"])
def test_what_is_no_address_is_refused(text: str) -> None:
    assert not everywhere.permits(text, 443, is_tls=True)


@given(st.ip_addresses())
def test_a_decision_is_always_reached(address: IPv4Address | IPv6Address) -> None:
    permitted = nowhere.permits(str(address), 443, is_tls=True)
    assert not permitted or not ip_address(str(address)).is_loopback
