"""Listens for operators inside the control process."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette

from penstock.clock import Clock, TimerWheel
from penstock.console.operator_connections import OperatorConnections
from penstock.console.operator_pages import OperatorPages, build_operator_pages
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.console_pages import ConsolePages
from penstock.console.settings import ControlSettings
from penstock.console.sign_in import SignIn
from penstock.ingress.http.client_protocol import ClientProtocol

_DRAIN_SECONDS: Final = 5
_BIND_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to the process that it runs in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def listen(
    rooms: OperatorRooms, settings: ControlSettings, clock: Clock, console: ConsolePages | None
) -> None:
    """Serve administration until cancelled; wait for an address that is in use."""
    wheel = TimerWheel(clock)
    connections = OperatorConnections(settings.ingress, wheel, clock)
    pages = OperatorPages(rooms, SignIn(rooms.keys, settings, clock), settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, object]]:
        wheel.start()
        try:
            yield {"worker": connections}
        finally:
            wheel.stop()

    config = uvicorn.Config(
        build_operator_pages(pages, console.routes() if console else (), lifespan),
        host=settings.host,
        port=settings.port,
        http=ClientProtocol,
        loop="none",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.ingress.keep_alive_seconds,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    server = _Server(config)
    sock = await _bound(settings)
    logger.info(
        "control listens", extra={"action": "control_listens", "port": sock.getsockname()[1]}
    )
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[sock]))
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                server.should_exit = True
                await serving
                raise
    finally:
        sock.close()


async def _bound(settings: ControlSettings) -> socket.socket:
    """Return a bound socket. Control's loops must go on while another process has the port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    while True:
        sock = socket.socket(family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((settings.host, settings.port))
        except OSError as failure:
            sock.close()
            logger.warning(
                "control cannot listen",
                extra={"action": "control_cannot_listen", "reason": str(failure)},
            )
            await asyncio.sleep(_BIND_SECONDS)
        else:
            return sock
