"""Streams chat requests from one OpenAI-compatible address, over the gateway's own connections.

They cost little enough that what is measured is the other side.
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
# Longer than to an engine next door: the address may be anywhere.
_CONNECT_SECONDS: Final = 10.0


class Access(msgspec.Struct, frozen=True):
    """How requests get in, and how long each may take."""

    key: str = ""
    ca_file: str = ""
    seconds_max: float = 300.0


class ChatClient:
    """Connections to one address."""

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
        """The answer when it has ended, however it did. Cancelling drops the connection."""
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
                    # Closed by the other side just as we wrote to it.
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
    """An OpenAI base URL; a bare address gets its `/v1`."""
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
