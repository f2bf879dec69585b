"""Opens a connection: resolves the name, checks the addresses, connects to one of them.

The connection goes to an address that was checked, whatever the name resolves to a moment later;
TLS and the Host header keep the name.
"""

import asyncio
import ssl
from collections.abc import Iterable

from penstock.outbound.addresses import Guard
from penstock.outbound.names import Resolver
from penstock.outbound.target import Target


class AddressRefused(Exception):
    """The address is not one that requests may be sent to."""

    def __init__(self) -> None:
        super().__init__("the address is not one that requests may be sent to")


class Connector:
    """Opens connections to addresses that a guard permits."""

    def __init__(self, ca_file: str, resolver: Resolver) -> None:
        self._ca_file = ca_file
        self._resolver = resolver
        self._tls: ssl.SSLContext | None = None

    async def open(
        self, account: str, target: Target, guard: Guard
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect for an account. Raises AddressRefused if no address of the name is permitted."""
        found = await self._resolver.addresses(account, target.host, target.port)
        permitted = (
            each for each in found if guard.permits(each, target.port, is_tls=target.is_tls)
        )
        address = next(permitted, None)
        if address is None:
            raise AddressRefused
        return await asyncio.open_connection(
            address,
            target.port,
            ssl=self._context() if target.is_tls else None,
            server_hostname=target.host if target.is_tls else None,
        )

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._ca_file or None)
        return self._tls


def request_head(method: str, target: Target, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a request on a connection of its own.

    ValueError for a header that is not one printable ASCII line: it could hold a second request.
    """
    lines = [f"{method} {target.path} HTTP/1.1", f"host: {target.authority}", "connection: close"]
    for name, value in headers:
        line = f"{name}: {value}"
        if not line.isascii() or not line.isprintable():
            raise ValueError("a header is not one line of printable ASCII")
        lines.append(line)
    return "\r\n".join([*lines, "", ""]).encode("ascii")
