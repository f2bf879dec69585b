"""Sends chat requests to one OpenAI-compatible address, with the gateway's connection class.

It costs so little that a run measures the server and not this client.
"""

import asyncio
from typing import Final
from urllib.parse import urlsplit

import msgspec

from penstock.cli.bench.answer import UNREACHABLE, StreamedAnswer
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.clock import Clock
from penstock.engine.connection import Connection
from penstock.engine.pool import ConnectionPool
from penstock.engine.settings import EngineSettings
from penstock.errors import ReplicaUnreachable

_ANSWER_BYTES_MAX: Final = 64 * 2**20
# Longer than for an engine, because the address may be far away.
_CONNECT_SECONDS: Final = 10.0


class Access(msgspec.Struct, frozen=True):
    """The key, the certificate authority, and the time limit of each request."""

    key: str = ""
    ca_file: str = ""
    seconds_max: float = 300.0


class ChatClient:
    """Sends requests to one address over pooled connections."""

    def __init__(self, url: str, access: Access, clock: Clock) -> None:
        settings = EngineSettings(connect_seconds=_CONNECT_SECONDS, ca_file=access.ca_file)
        self._pool = ConnectionPool(url, settings, clock)
        self._clock = clock
        self._seconds_max = access.seconds_max
        credentials = f"authorization: Bearer {access.key}\r\n" if access.key else ""
        self._head = (
            f"POST {self._pool.path}/chat/completions HTTP/1.1\r\n"
            f"host: {self._pool.host_header}\r\n{credentials}"
            "content-type: application/json\r\naccept: text/event-stream\r\n"
            "user-agent: penstock-bench\r\nx-penstock-cost: 1\r\n"
        )

    async def ask(self, body: bytes, session: str | None) -> StreamedAnswer:
        """Return the answer when it has ended, well or not. Cancelling drops the connection."""
        affinity = f"x-session-affinity: {session}\r\n" if session else ""
        head = f"{self._head}{affinity}content-length: {len(body)}\r\n\r\n".encode()
        answer = StreamedAnswer(self._clock, _ANSWER_BYTES_MAX)
        try:
            # Not wait_for: before Python 3.12 it can swallow a cancel.
            async with asyncio.timeout(self._seconds_max):
                idle = self._pool.take_idle()
                if idle is not None:
                    await _exchange(idle, head + body, answer)
                    if answer.was_answered or answer.code != UNREACHABLE:
                        return answer
                    # The server closed the idle connection before it read the request.
                    answer = StreamedAnswer(self._clock, _ANSWER_BYTES_MAX)
                await _exchange(await self._pool.connect(), head + body, answer)
        except TimeoutError:
            answer.end("timeout")
        except ReplicaUnreachable:
            answer.end(UNREACHABLE)
        return answer

    def close(self) -> None:
        self._pool.close()


async def _exchange(connection: Connection, request: bytes, answer: StreamedAnswer) -> None:
    connection.send([request], answer)
    try:
        await answer.ended
    finally:
        if not answer.is_complete:
            connection.abort()


def base_url(text: str) -> str:
    """Return an OpenAI base URL; a bare address gets its `/v1`."""
    parts = urlsplit(text)
    try:
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment:
        raise CommandFailed(
            f"`{text}` is no address: write http://HOST:PORT or https://HOST/v1.", ExitCode.USAGE
        )
    url = text.rstrip("/")
    return url if parts.path.strip("/") else f"{url}/v1"
