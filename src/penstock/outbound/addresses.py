"""Decides which addresses a request may be sent to. Pure: names are resolved elsewhere.

An account chooses the names and their addresses, so these must not give access to this machine's
own networks. Public addresses may be reached; others only if the operator lists them;
link-local addresses and clouds' metadata servers never.
"""

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NEVER: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # "this host": Linux connects it to loopback
        "169.254.0.0/16",
        "fe80::/10",
        "fec0::/10",
        "::/128",
        "255.255.255.255/32",
        # Metadata servers that are not link-local: AWS, Google, Alibaba, Oracle, Azure.
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "168.63.129.16/32",
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_HTTPS_PORT: Final = 443
_SERVICE_PORTS_END: Final = 1024


class Guard:
    """Permits or denies connections, given the networks that the operator allows."""

    def __init__(self, allowed_networks: Iterable[str] = ()) -> None:
        self._allowed = tuple(ip_network(text) for text in allowed_networks)

    def permits(self, text: str, port: int, *, is_tls: bool) -> bool:
        """Return whether a connection to this address and port may be opened."""
        try:
            address = _without_wrapping(ip_address(text))
        except ValueError:
            return False
        if address.is_multicast or _is_in(address, _NEVER):
            return False
        if _is_in(address, self._allowed):
            return True
        return is_tls and _is_public(address) and _is_public_port(port)


def _without_wrapping(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one embeds (mapped, 6to4, NAT64), else the address."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    # These properties also exclude Teredo and IPv4-compatible addresses.
    return address.is_global and not address.is_private and not address.is_reserved


def _is_public_port(port: int) -> bool:
    """Return whether a port is 443 or no system port: requests must not reach mail servers."""
    return port == _HTTPS_PORT or port >= _SERVICE_PORTS_END


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
