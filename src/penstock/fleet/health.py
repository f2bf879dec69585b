"""Queries engines for health, served models, running requests and metrics, for a keeper's loops.

One GET per connection, with a timeout and a size limit. Callers' requests go through `engine/`,
never through this module.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from penstock.errors import ReplicaUnreachable
from penstock.fleet.engine_metrics import read_metrics
from penstock.fleet.settings import FleetSettings
from penstock.records.dialect import health_path
from penstock.records.replica import Replica, key_for

_HEADERS_MAX = 100
_FAILURES = (OSError, TimeoutError, ValueError, EOFError, asyncio.LimitOverrunError)


class ProbeAnswer(NamedTuple):
    """An HTTP status and a complete body."""

    status: int
    body: bytes


class _ModelEntry(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_ModelEntry]


class EngineProbe:
    """Queries engines. A replica's own key comes first; `api_keys` has others by base URL."""

    def __init__(
        self,
        settings: FleetSettings,
        *,
        api_keys: Mapping[str, str] | None = None,
        ca_file: str = "",
    ) -> None:
        self._timeout = settings.health_timeout_seconds
        self._bytes_max = settings.health_bytes_max
        self._api_keys = api_keys or {}
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None

    async def is_healthy(self, replica: Replica) -> bool:
        """Return whether the dialect's health path answers 200 in time."""
        try:
            return (await self._get(replica, health_path(replica.dialect))).status == 200
        except ReplicaUnreachable:
            return False

    async def served_names(self, replica: Replica) -> tuple[str, ...]:
        """Return the model names that the engine serves, in the engine's order."""
        answer, url = await self._get(replica, "/v1/models"), replica.url
        if answer.status != 200:
            raise ReplicaUnreachable(f"{url}/v1/models answers {answer.status}.")
        try:
            models = msgspec.json.decode(answer.body, type=_ModelList)
        except msgspec.DecodeError:
            raise ReplicaUnreachable(f"{url}/v1/models is not a list of models.") from None
        return tuple(entry.id for entry in models.data)

    async def running(self, replica: Replica) -> int | None:
        """Return the number of requests in the engine; None if it does not report it."""
        try:
            page = await self.metrics(replica, self._timeout)
        except ReplicaUnreachable:
            return None
        return None if page is None else read_metrics(page).inside

    async def metrics(self, replica: Replica, timeout_seconds: float) -> bytes | None:
        """Return the metrics page; None if there is none. Raises if the engine does not answer."""
        answer = await self._get(replica, "/metrics", timeout_seconds)
        return answer.body if answer.status == 200 else None

    async def _get(
        self, replica: Replica, path: str, timeout_seconds: float | None = None
    ) -> ProbeAnswer:
        try:
            async with asyncio.timeout(timeout_seconds or self._timeout):
                return await self._exchange(replica, path)
        except _FAILURES as failure:
            reason = str(failure) or type(failure).__name__
            raise ReplicaUnreachable(f"{replica.url}{path}: {reason}") from None

    async def _exchange(self, replica: Replica, path: str) -> ProbeAnswer:
        parts = urlsplit(replica.url)
        is_tls = parts.scheme == "https"
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port or (443 if is_tls else 80), ssl=self._context(is_tls)
        )
        try:
            key = key_for(replica, self._api_keys)
            credentials = f"authorization: Bearer {key}\r\n" if key else ""
            writer.write(
                f"GET {parts.path.rstrip('/')}{path} HTTP/1.1\r\n"
                f"host: {parts.netloc.rpartition('@')[2]}\r\n"
                f"{credentials}connection: close\r\n\r\n".encode()
            )
            return await _read_answer(reader, self._bytes_max)
        finally:
            # The answer is complete, so an orderly close would only take time.
            writer.transport.abort()

    def _context(self, is_tls: bool) -> ssl.SSLContext | None:
        if not is_tls:
            return None
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._ca_file or None)
        return self._tls


async def _read_answer(reader: asyncio.StreamReader, bytes_max: int) -> ProbeAnswer:
    version, _, rest = (await reader.readuntil(b"\r\n")).partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise ValueError("that is not an HTTP server")
    status = int(rest[:3])
    headers: dict[bytes, bytes] = {}
    for _ in range(_HEADERS_MAX):
        line = await reader.readuntil(b"\r\n")
        if line == b"\r\n":
            break
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    else:
        raise ValueError("too many headers")
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        return ProbeAnswer(status, await _read_chunks(reader, bytes_max))
    length = headers.get(b"content-length")
    if length is not None:
        return ProbeAnswer(status, await _read_exactly(reader, int(length), bytes_max))
    body = await reader.read(bytes_max)
    while block := await reader.read(65536):
        body += block
        _check_size(len(body), bytes_max)
    return ProbeAnswer(status, body)


async def _read_chunks(reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await _read_exactly(reader, size, bytes_max - len(body))
        await reader.readexactly(2)
    return bytes(body)


async def _read_exactly(reader: asyncio.StreamReader, size: int, bytes_max: int) -> bytes:
    _check_size(size, bytes_max)
    return await reader.readexactly(size)


def _check_size(size: int, bytes_max: int) -> None:
    if not 0 <= size <= bytes_max:
        raise ValueError("the answer is too large")
