"""Waits until requests would succeed: all models have a healthy replica, known to the gateway."""

import asyncio

from penstock.cli.http_call import HttpCaller
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.console.screens.safety_headers import ROOT
from penstock.errors import ReplicaUnreachable, StoreUnavailable
from penstock.fleet.roster import RosterMirror
from penstock.records.dialect import health_path
from penstock.records.model import ModelId
from penstock.store import Store

_LOOK_SECONDS = 0.2
_MARGIN_SECONDS = 0.2


def console_url(config: Config, port: int) -> str | None:
    """Return where a browser of this machine finds the console of control at this port, if any."""
    control = config.control
    if not port or not control.console:
        return None
    site = control.console_url or f"http://{local_address(control.host)}:{port}"
    return f"{site}{ROOT}/"


class ReadyWait:
    """Polls roster, replicas and gateway. The roster alone may have rows of a killed run."""

    def __init__(
        self, config: Config, store: Store, models: tuple[ModelId, ...], caller: HttpCaller
    ) -> None:
        self._models = models
        self._caller = caller
        self._poll_seconds = config.fleet.roster_poll_seconds
        self._gateway = f"http://{local_address(config.ingress.host)}:{config.ingress.port}"
        self._roster = RosterMirror(store, SystemClock(), config.fleet)

    async def wait(self) -> None:
        while True:
            if await self._is_ready():
                break
            await asyncio.sleep(_LOOK_SECONDS)
        # By then every gateway worker has read the roster that was just read here.
        await asyncio.sleep(self._poll_seconds + _MARGIN_SECONDS)

    async def _is_ready(self) -> bool:
        try:
            await self._roster.load()
        except StoreUnavailable:
            return False
        for model in self._models:
            if not await self._has_healthy(model):
                return False
        return await asyncio.to_thread(self._answers, self._gateway, "/readyz")

    async def _has_healthy(self, model: ModelId) -> bool:
        for replica in self._roster.ready(model):
            if await asyncio.to_thread(self._answers, replica.url, health_path(replica.dialect)):
                return True
        return False

    def _answers(self, url: str, path: str) -> bool:
        try:
            return self._caller.get(url, path).status == 200
        except ReplicaUnreachable:
            return False


def local_address(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on `host`."""
    known = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - compared only
    return known.get(host, f"[{host}]" if ":" in host else host)
