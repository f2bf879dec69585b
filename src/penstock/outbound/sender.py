"""Posts one request to an address that an account chose. No redirect is followed, and only the
status is read.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from penstock.errors import InvalidRequest
from penstock.outbound.addresses import Guard
from penstock.outbound.connecting import AddressRefused, Connector, request_head
from penstock.outbound.names import Resolver, SystemResolver
from penstock.outbound.target import Target, read_target

_HEAD_LINES_MAX: Final = 200
_FAILURES: Final = (OSError, ValueError, EOFError, asyncio.LimitOverrunError)


class Sent(msgspec.Struct, frozen=True):
    """The result of one try: the receiver's status, or None and the problem."""

    status: int | None = None
    problem: str = ""

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


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
        self._connector = Connector(
            settings.ca_file,
            resolver
            or SystemResolver(settings.lookups_at_once_max, settings.lookups_per_account_max),
        )
        self.guard = Guard(settings.allowed_networks)

    async def post(
        self, account: str, url: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> Sent:
        """Post once, for an account. A failure on the way is a `Sent` with a problem."""
        try:
            target = read_target(url)
            async with asyncio.timeout(self._timeout):
                return Sent(await self._exchange(account, target, headers, body))
        except AddressRefused as refused:
            return Sent(problem=str(refused))
        except InvalidRequest as wrong:
            return Sent(problem=wrong.message)
        except TimeoutError:
            return Sent(problem="no answer in time")
        except ssl.SSLError as failure:
            return Sent(problem=f"TLS: {failure.reason or type(failure).__name__}")
        except _FAILURES as failure:
            return Sent(problem=f"no connection or no HTTP answer ({type(failure).__name__})")

    async def _exchange(
        self, account: str, target: Target, headers: Sequence[tuple[str, str]], body: bytes
    ) -> int:
        reader, writer = await self._connector.open(account, target, self.guard)
        try:
            fixed = [
                ("user-agent", "penstock-webhooks/1"),
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
            ]
            writer.write(request_head("POST", target, [*fixed, *headers]) + body)
            return await _read_status(reader)
        finally:
            # The answer's body is not read, so an orderly close is not waited for.
            writer.transport.abort()


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
