"""Sends one request: resolves the name, checks the addresses, posts to one of them.

The connection goes to an address that was checked, whatever the name resolves to a moment later;
TLS and the Host header keep the name. No redirect is followed and only the status is read.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import msgspec

from penstock.errors import InvalidRequest
from penstock.outbound.addresses import Guard
from penstock.outbound.target import Target, read_target

_HEAD_LINES_MAX: Final = 200
LookUp = Callable[[str, int], list[str]]
_FAILURES: Final = (OSError, ValueError, EOFError, asyncio.LimitOverrunError)


class Sent(msgspec.Struct, frozen=True):
    """The result of one try: the receiver's status, or None and the problem."""

    status: int | None = None
    problem: str = ""

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def look_up_addresses(host: str, port: int) -> list[str]:
    """Return the addresses that the machine's resolver gives; blocks until it does."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Resolver(Protocol):
    """A port: the addresses of a name, best first. OSError if it has none."""

    async def addresses(self, account: str, host: str, port: int) -> Sequence[str]: ...


class SystemResolver:
    """The machine's own resolver, on threads of its own, a bounded number of them per account.

    A lookup cannot be cancelled: a name that hangs keeps its thread after its caller has timed
    out. So an account's share counts running lookups and not waiting callers.
    """

    def __init__(
        self, at_once_max: int, per_account_max: int, look_up: LookUp = look_up_addresses
    ) -> None:
        self._threads = ThreadPoolExecutor(at_once_max, "outbound-names")
        self._per_account_max = per_account_max
        self._look_up = look_up
        self._shares: dict[str, _Share] = {}

    async def addresses(self, account: str, host: str, port: int) -> Sequence[str]:
        share = self._shares.setdefault(account, _Share(self._per_account_max))
        share.users += 1
        try:
            await share.free.acquire()
        except BaseException:
            self._leave(account, share)
            raise
        loop = asyncio.get_running_loop()
        lookup = loop.run_in_executor(self._threads, self._look_up, host, port)
        lookup.add_done_callback(lambda _: self._release(account, share))
        found = await asyncio.shield(lookup)
        return list(dict.fromkeys(found))

    def _release(self, account: str, share: "_Share") -> None:
        share.free.release()
        self._leave(account, share)

    def _leave(self, account: str, share: "_Share") -> None:
        share.users -= 1
        if not share.users:
            del self._shares[account]


class _Share:
    """One account's lookups: how many more may run, and how many run or wait."""

    def __init__(self, at_once_max: int) -> None:
        self.free = asyncio.Semaphore(at_once_max)
        self.users = 0


class SenderSettings(Protocol):
    """What a sender needs of its user's settings."""

    @property
    def allowed_networks(self) -> Sequence[str]: ...

    @property
    def ca_file(self) -> str: ...

    @property
    def timeout_seconds(self) -> float: ...

    @property
    def lookups_at_once_max(self) -> int: ...

    @property
    def lookups_per_account_max(self) -> int: ...


class Sender:
    """Sends requests to addresses that the guard permits, within `timeout_seconds`."""

    def __init__(self, settings: SenderSettings, resolver: Resolver | None = None) -> None:
        self._timeout = settings.timeout_seconds
        self._ca_file = settings.ca_file
        self._resolver = resolver or SystemResolver(
            settings.lookups_at_once_max, settings.lookups_per_account_max
        )
        self._tls: ssl.SSLContext | None = None
        self.guard = Guard(settings.allowed_networks)

    async def post(
        self, account: str, url: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> Sent:
        """Post once, for an account. A failure on the way is a `Sent` with a problem."""
        try:
            target = read_target(url)
            async with asyncio.timeout(self._timeout):
                address = await self._address(account, target)
                if address is None:
                    return Sent(problem="the address is not one that requests may be sent to")
                return Sent(await self._exchange(target, address, headers, body))
        except InvalidRequest as wrong:
            return Sent(problem=wrong.message)
        except TimeoutError:
            return Sent(problem="no answer in time")
        except ssl.SSLError as failure:
            return Sent(problem=f"TLS: {failure.reason or type(failure).__name__}")
        except _FAILURES as failure:
            return Sent(problem=f"no connection or no HTTP answer ({type(failure).__name__})")

    async def _address(self, account: str, target: Target) -> str | None:
        found = await self._resolver.addresses(account, target.host, target.port)
        permitted = (
            each for each in found if self.guard.permits(each, target.port, is_tls=target.is_tls)
        )
        return next(permitted, None)

    async def _exchange(
        self, target: Target, address: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> int:
        reader, writer = await asyncio.open_connection(
            address,
            target.port,
            ssl=self._context() if target.is_tls else None,
            server_hostname=target.host if target.is_tls else None,
        )
        try:
            lines = [
                f"POST {target.path} HTTP/1.1",
                f"host: {target.authority}",
                "user-agent: penstock-webhooks/1",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
                *(f"{name}: {value}" for name, value in headers),
            ]
            writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
            return await _read_status(reader)
        finally:
            # The answer's body is not read, so an orderly close is not waited for.
            writer.transport.abort()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._ca_file or None)
        return self._tls


async def _read_status(reader: asyncio.StreamReader) -> int:
    """Return the final status, after any 1xx ones. The stream bounds the length of lines."""
    for _ in range(_HEAD_LINES_MAX):
        line = await reader.readuntil(b"\r\n")
        if not line.startswith(b"HTTP/1."):
            continue
        status = int(line.split(b" ", 2)[1])
        if status >= 200:
            return status
    raise ValueError("the answer has no status")
