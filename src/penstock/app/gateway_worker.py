"""Makes the application that uvicorn runs in each gateway worker's process."""

import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TypedDict

from starlette.applications import Starlette

from penstock.app import heap
from penstock.app.gateway_figures import snapshot
from penstock.app.gateway_loops import running
from penstock.app.gateway_rooms import GatewayRooms
from penstock.clock import SystemClock
from penstock.config import load
from penstock.ingress.http.worker_connections import WorkerConnections
from penstock.ingress.metrics_page import hand_out
from penstock.ingress.pages.pages import build_pages
from penstock.ingress.server import abort_on_second_interrupt
from penstock.serving.request_path import Meters
from penstock.telemetry import log

_COLLECT_EVERY = 20_000

logger = logging.getLogger(__name__)


class WorkerState(TypedDict):
    """uvicorn's application state, from which the HTTP protocol class takes the worker."""

    worker: WorkerConnections


def gateway(meters: Meters | None = None) -> Starlette:
    """Build one worker. uvicorn calls this in the worker's own process."""
    config = load().config
    log_writer = log.set_up_service(config.telemetry)
    rooms = GatewayRooms(config, SystemClock(), log_writer, meters)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[WorkerState]:
        try:
            async with running(rooms):
                _calm_collector()
                heap.keep_between_requests()
                figures = partial(snapshot, rooms)
                server = await hand_out(figures, Path(config.ingress.run_folder))
                try:
                    with abort_on_second_interrupt(rooms.endpoint.abort):
                        yield WorkerState(worker=rooms.endpoint)
                finally:
                    server.close()
        except BaseException:
            if rooms.is_loaded:
                # A loop has failed. uvicorn would go on serving without any of them: no drain, no
                # limits, no revocations. End this process, so that its supervisor starts another.
                logger.exception("gateway worker gives up", extra={"action": "worker_gives_up"})
                signal.raise_signal(signal.SIGTERM)
            raise

    return build_pages(rooms.pages, config.ingress, lifespan)


def _calm_collector() -> None:
    """Exclude the objects made at start-up from every later collection, and collect less often.

    The request path makes almost no cycles. With Python's defaults a collection every 700 objects,
    and now and then a full one over the whole heap, took about a fifth of a small request's CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, 20, 100)
