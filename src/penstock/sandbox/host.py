"""Runs a sandbox host: its pool, and the listener for gateways, until it is told to stop."""

import asyncio
import contextlib
import logging
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import uvicorn

from penstock.clock import Clock
from penstock.sandbox.code_runner import CodeRunner
from penstock.sandbox.connection import SandboxConnection
from penstock.sandbox.driver import BoxDriver
from penstock.sandbox.pool import BoxPool
from penstock.sandbox.server import SandboxServer
from penstock.sandbox.settings import SandboxSettings

_DRAIN_SECONDS: Final = 5
_TOKEN_CHARACTERS_MIN: Final = 16

logger = logging.getLogger(__name__)


class SandboxProblem(Exception):
    """A sandbox host cannot start; the text says why."""


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to the process that it runs in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def read_token(settings: SandboxSettings) -> bytes:
    """Return the token in a file that only its owner can read."""
    path = Path(settings.token_file)
    if not settings.token_file:
        raise SandboxProblem("Set sandbox.token_file: gateways must show who they are.")
    try:
        token, mode = path.read_bytes().strip(), path.stat().st_mode
    except OSError as failure:
        raise SandboxProblem(
            f"The token cannot be read from {path} ({failure.strerror})."
        ) from None
    if len(token) < _TOKEN_CHARACTERS_MIN or not token.isascii() or len(token.split()) != 1:
        raise SandboxProblem(
            f"{path} must hold a word of {_TOKEN_CHARACTERS_MIN} characters at least, such as"
            " `openssl rand -hex 32` prints."
        )
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise SandboxProblem(f"Other users may read or change {path}: run `chmod 600` on it.")
    return token


async def run_host(
    driver: BoxDriver, settings: SandboxSettings, clock: Clock, stop: asyncio.Event
) -> None:
    """Serve gateways until `stop` is set, then end all containers."""
    token = read_token(settings)
    with _bound(settings) as sock:
        # The port is ours, so no other process has containers in our control groups.
        await asyncio.to_thread(driver.clear)
        pool = BoxPool(driver, settings, clock)
        async with asyncio.TaskGroup() as calls, pool.tended():
            runner = CodeRunner(pool, settings, clock, calls)
            server = _server(SandboxServer(pool, runner, settings, token), settings)
            status = pool.status()
            extra = {"boot": pool.boot, "port": settings.port, "isolation": status.isolation}
            logger.info("sandbox listens", extra={"action": "sandbox_listens", **extra})
            if status.is_dev:
                logger.warning(
                    "nothing is isolated: code has this user's files and network",
                    extra={"action": "sandbox_not_isolated"},
                )
            async with asyncio.TaskGroup() as group:
                group.create_task(server.serve(sockets=[sock]))
                group.create_task(_stop(server, pool, stop))
        await asyncio.to_thread(driver.clear)


async def _stop(server: uvicorn.Server, pool: BoxPool, stop: asyncio.Event) -> None:
    await stop.wait()
    # Calls end with their containers, so that no answer is left to wait for.
    await pool.close()
    server.should_exit = True


def _server(app: SandboxServer, settings: SandboxSettings) -> uvicorn.Server:
    return _Server(
        uvicorn.Config(
            app,
            http=SandboxConnection,
            loop="none",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=settings.connections_max,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
    )


@contextlib.contextmanager
def _bound(settings: SandboxSettings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((settings.host, settings.port))
        except OSError as failure:
            place = f"{settings.host}:{settings.port}"
            raise SandboxProblem(f"Cannot listen on {place}: {failure.strerror}.") from None
        yield sock
