"""Runs the gateway's workers under uvicorn: one process each, one listening socket for all."""

import asyncio
import contextlib
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from penstock.ingress.http.client_protocol import ClientProtocol
from penstock.ingress.metrics_page import MetricsServer
from penstock.ingress.settings import IngressSettings

# A worker that does not answer its parent for so long is killed. uvicorn's 5 seconds are less than
# a start takes on a machine with five times the work that it can do: no worker would ever be ready.
_SILENT_SECONDS_MAX: Final = 30


def run_gateway(application: str, settings: IngressSettings, run_folder: Path) -> None:
    """Serve until SIGTERM: then stop accepting, finish streams for `drain_seconds`, and close.

    `application` names the factory that each worker calls. A worker that dies is started again.
    """
    config = uvicorn.Config(
        application,
        factory=True,
        host=settings.host,
        port=settings.port,
        http=ClientProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        workers=settings.workers,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=4096,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.drain_seconds,
        timeout_worker_healthcheck=_SILENT_SECONDS_MAX,
    )
    metrics = None
    if settings.metrics_port:
        metrics = MetricsServer(settings.host, settings.metrics_port, run_folder, settings.workers)
        metrics.start()
    try:
        sock = config.bind_socket()
        if settings.workers == 1:
            uvicorn.Server(config).run(sockets=[sock])
        else:
            _Workers(config, sockets=[sock]).run()
    finally:
        if metrics is not None:
            metrics.stop()


@contextlib.contextmanager
def abort_on_second_interrupt(abort: Callable[[], None]) -> Iterator[None]:
    """Call `abort` on the first SIGINT that comes while this worker is stopping already.

    uvicorn would exit at once and skip the application's shutdown, and one of several workers would
    die of its parent's SIGTERM before asyncio can cancel a task. With all requests aborted,
    uvicorn's own shutdown has nothing to wait for. uvicorn handles the next SIGINT itself.
    """
    loop = asyncio.get_running_loop()
    uvicorns = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    is_stopping = is_aborted = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping, is_aborted
        if is_stopping and not is_aborted and number == signal.SIGINT:
            is_aborted = True
            loop.call_soon_threadsafe(abort)
            return
        is_stopping = True
        handler = uvicorns[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in uvicorns:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in uvicorns.items():
            signal.signal(number, handler)


class _Workers(Multiprocess):
    """uvicorn's parent process of several workers."""

    def terminate_all(self) -> None:
        # The workers close their listening socket; the parent's copy would go on accepting
        # connections that no worker serves, until the last stream has ended.
        for sock in self.sockets:
            sock.close()
        super().terminate_all()


def make_run_folder() -> Path:
    """Create a temporary folder for the workers' sockets; its path must fit a socket address."""
    return Path(tempfile.mkdtemp(prefix="penstock-"))


def remove_run_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
