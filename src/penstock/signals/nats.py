"""Core NATS between hosts: one subject per cell, nothing stored on the server.

Sending never waits: messages that NATS does not accept in time are dropped, and later messages
repeat their prompts. A lost connection is retried without limit.
"""

import asyncio
import contextlib
import hashlib
import logging
import math
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from penstock.signals.counts import Drop, SignalCounts
from penstock.signals.settings import SignalsSettings

logger = logging.getLogger(__name__)


async def find_problem(settings: SignalsSettings) -> str:
    """Connect and disconnect within `nats_connect_seconds`; return what went wrong, or empty."""
    client = Client()
    causes: list[Exception] = []

    async def note(cause: Exception) -> None:
        causes.append(cause)

    try:
        # Without this timeout the client would retry for two minutes.
        async with asyncio.timeout(settings.nats_connect_seconds):
            await client.connect(**(_options(settings) | {"error_cb": note}))
            await client.close()
    except (OSError, ValueError, NatsError) as wrong:
        cause = causes[-1] if causes else wrong
        return f"{type(cause).__name__}: {cause}"
    return ""


class NatsLine:
    """Keeps one connection to NATS; `is_up` while it is connected."""

    def __init__(self, settings: SignalsSettings, mark: str, counts: SignalCounts) -> None:
        self.is_up = False
        self._settings = settings
        # A hash of the cell's mark, because everyone with access to the server sees subjects.
        self._subject = f"penstock.{hashlib.sha256(mark.encode()).hexdigest()[:16]}"
        self._counts = counts
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue(settings.nats_pending_max)
        self._is_missed = False

    async def run(self, hear: Callable[[bytes], None]) -> None:
        """Stay connected until cancelled."""
        while not _is_cancelled():
            try:
                await self._session(hear)
            except (OSError, ValueError, NatsError) as wrong:
                self._say_missed(wrong)
            except Exception:
                # Catch everything at the loop's top: the gateway keeps serving, and this retries.
                self._counts.failures += 1
                logger.exception("nats session failed", extra={"action": "nats_failed"})
            await asyncio.sleep(self._settings.nats_retry_seconds)
        raise asyncio.CancelledError

    def send(self, data: bytes) -> bool:
        """Queue a message for all subscribers. NATS confirms no delivery, so this returns False."""
        if not self.is_up:
            self._counts.drop(Drop.NOT_SENT)
            return False
        try:
            self._outbox.put_nowait(data)
        except asyncio.QueueFull:
            self._counts.drop(Drop.QUEUE_FULL)
        return False

    async def _session(self, hear: Callable[[bytes], None]) -> None:
        async def heard(message: Msg) -> None:
            hear(message.data)

        client = Client()
        try:
            await client.connect(**_options(self._settings))
            settings = self._settings
            await client.subscribe(
                self._subject,
                cb=heard,
                pending_msgs_limit=settings.nats_pending_max,
                pending_bytes_limit=settings.nats_pending_max * settings.message_bytes_max,
            )
            await client.flush(timeout=math.ceil(settings.nats_connect_seconds))
            self.is_up = True
            self._is_missed = False
            logger.info("nats connected", extra={"action": "nats_connected"})
            while client.is_connected and not _is_cancelled():
                await client.publish(self._subject, await self._outbox.get())
        finally:
            self.is_up = False
            await self._leave(client)
        raise NatsError("the connection was lost")

    async def _leave(self, client: Client) -> None:
        """Send queued messages, such as the last one, and close, within `nats_connect_seconds`."""
        with contextlib.suppress(OSError, NatsError):
            async with asyncio.timeout(self._settings.nats_connect_seconds):
                while not self._outbox.empty():
                    data = self._outbox.get_nowait()
                    if client.is_connected:
                        await client.publish(self._subject, data)
                await client.close()

    def _say_missed(self, wrong: Exception) -> None:
        """Log a lost connection once, not for every attempt to reconnect."""
        if not self._is_missed:
            extra = {"action": "nats_missed", "error": f"{type(wrong).__name__}: {wrong}"}
            logger.warning("nats cannot be reached", extra=extra)
        self._is_missed = True


def _options(settings: SignalsSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "servers": [url.strip() for url in settings.nats_url.split(",")],
        "error_cb": _ignore,
        "name": "penstock",
        # `run` reconnects, because the client's own reconnection gives up in some cases.
        "allow_reconnect": False,
        "no_echo": True,
        "connect_timeout": settings.nats_connect_seconds,
        "ping_interval": settings.nats_ping_seconds,
        "pending_size": settings.nats_pending_max * settings.message_bytes_max,
    }
    if settings.nats_password_file:
        secret = Path(settings.nats_password_file).read_text().strip()
        if settings.nats_user:
            options |= {"user": settings.nats_user, "password": secret}
        else:
            options["token"] = secret
    if settings.nats_ca_file or settings.nats_certificate_file:
        options["tls"] = _tls(settings)
    return options


def _is_cancelled() -> bool:
    """Return whether this task was cancelled; the client sometimes swallows the cancellation."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _tls(settings: SignalsSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.nats_ca_file or None)
    if settings.nats_certificate_file:
        context.load_cert_chain(settings.nats_certificate_file)
    return context


async def _ignore(_: Exception) -> None:
    """Ignore the client's error callback: errors that end a session are logged when it ends."""
