"""Runs the gateway's workers under uvicorn: one process each, one listening socket for all."""

import shutil
import tempfile
from pathlib import Path

import uvicorn
from uvicorn.supervisors import Multiprocess

from penstock.ingress.client_protocol import ClientProtocol
from penstock.ingress.metrics_page import MetricsServer
from penstock.ingress.settings import Settings


def run_gateway(application: str, settings: Settings, run_folder: Path) -> None:
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
    )
    metrics = None
    if settings.metrics_port:
        metrics = MetricsServer(settings.host, settings.metrics_port, run_folder)
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


class _Workers(Multiprocess):
    """uvicorn's parent of several workers."""

    def terminate_all(self) -> None:
        # The workers close the socket they listen on, but ours would keep taking in connections
        # that nobody serves any more, until the last stream has ended.
        for sock in self.sockets:
            sock.close()
        super().terminate_all()


def make_run_folder() -> Path:
    """A short-lived folder for the workers' sockets; its path must fit a Unix socket's name."""
    return Path(tempfile.mkdtemp(prefix="penstock-"))


def remove_run_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
