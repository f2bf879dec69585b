"""Calls a server and reads its answer, by the same guard as webhooks. Follows no redirect."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal

import msgspec

from penstock.errors import InvalidRequest
from penstock.outbound.addresses import Guard
from penstock.outbound.answer import CallFailed, HttpReply
from penstock.outbound.connecting import AddressRefused, Connector, request_head
from penstock.outbound.names import Resolver, SystemResolver
from penstock.outbound.target import read_target

_NOT_OPENED: Final = (OSError, ValueError)


class OutboundCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `account` is whose share of lookups it takes."""

    account: str
    url: str
    guard: Guard
    method: Literal["POST", "DELETE"] = "POST"
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""

    def __repr__(self) -> str:
        """Headers and bodies hold secrets, and a URL may."""
        return f"OutboundCall({self.method})"


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds each call, out of the settings of the room that calls."""

    # A file of certificate authorities to trust; "" = the machine's own.
    ca_file: str
    connect_seconds: float
    first_byte_seconds: float
    body_bytes_max: int
    lookups_at_once_max: int
    lookups_per_account_max: int


class Caller:
    """Calls servers at addresses that a call's guard permits."""

    def __init__(self, limits: CallLimits, resolver: Resolver | None = None) -> None:
        self._limits = limits
        self._connector = Connector(
            limits.ca_file,
            resolver or SystemResolver(limits.lookups_at_once_max, limits.lookups_per_account_max),
        )

    @asynccontextmanager
    async def open(self, call: OutboundCall) -> AsyncIterator[HttpReply]:
        """Send a request and give its answer, with the head read. The caller sets the deadline.

        Raises CallFailed, as does reading the answer's body.
        """
        reader, writer = await self._connect(call)
        answer = HttpReply(reader, self._limits.body_bytes_max)
        try:
            await self._read_head(writer, answer)
            yield answer
        finally:
            answer.close()
            writer.transport.abort()

    async def _read_head(self, writer: asyncio.StreamWriter, answer: HttpReply) -> None:
        try:
            async with asyncio.timeout(self._limits.first_byte_seconds):
                await writer.drain()
                await answer.read_head()
        except TimeoutError:
            raise CallFailed("no answer in time", is_sent=True, is_late=True) from None
        except OSError as broken:
            problem = f"the connection broke ({type(broken).__name__})"
            raise CallFailed(problem, is_sent=True) from None

    async def _connect(
        self, call: OutboundCall
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            target = read_target(call.url)
            length = ("content-length", str(len(call.body)))
            head = request_head(call.method, target, [length, *call.headers])
            async with asyncio.timeout(self._limits.connect_seconds):
                reader, writer = await self._connector.open(call.account, target, call.guard)
        except (AddressRefused, InvalidRequest) as refused:
            raise CallFailed(str(refused), is_sent=False) from None
        except TimeoutError:
            raise CallFailed("no connection in time", is_sent=False, is_late=True) from None
        except ssl.SSLError as failure:
            reason = failure.reason or type(failure).__name__
            raise CallFailed(f"TLS: {reason}", is_sent=False) from None
        except _NOT_OPENED as failure:
            problem = f"no connection ({type(failure).__name__})"
            raise CallFailed(problem, is_sent=False) from None
        writer.write(head + call.body)
        return reader, writer
