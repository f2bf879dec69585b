"""The leading control process' loop that brings hosts closer to what deployments want."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.fleet.cell.autoscale import DeploymentLoad
from penstock.fleet.cell.comparing import read_comparisons
from penstock.fleet.cell.deployment_rows import (
    lock_deployments,
    note_load,
    read_cell,
    write_changes,
)
from penstock.fleet.cell.load_rows import CellLoads
from penstock.fleet.cell.step import CellChanges, next_changes
from penstock.fleet.cell.view import CellLimits, CellView, DeploymentView
from penstock.fleet.settings import FleetSettings
from penstock.store.pool import Store

if TYPE_CHECKING:
    from penstock.fleet.cell.rollout import Comparison

_LOOK_SECONDS: Final = 0.5
_COMPARE_SECONDS: Final = 10.0
# How exactly it is written when a deployment last had work.
_NOTE_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


class DeploymentLoop:
    """Looks twice a second, and changes rows only where something is to change.

    Any number of control processes may run it: each decides again under the lock that all writers
    take, so that no replica is placed twice.
    """

    def __init__(self, store: Store, clock: Clock, settings: FleetSettings) -> None:
        self._store = store
        self._clock = clock
        self._limits = CellLimits(
            lost_seconds=settings.orphan_seconds + settings.reap_margin_seconds,
            # A keeper reads what is wanted every heartbeat, and reports its host every fifth.
            silent_seconds=20 * settings.heartbeat_seconds,
            settle_seconds=10 * settings.heartbeat_seconds,
            gpu_foreign_mb=settings.gpu_foreign_mb,
        )
        self._comparisons: dict[str, Comparison] = {}
        self._compared_at = float("-inf")
        self._loads = CellLoads()

    async def run(self) -> None:
        while True:
            try:
                await self.step()
            except StoreUnavailable:
                logger.warning("deployments wait", extra={"action": "deployments_wait"})
            except Exception:
                # The top of the loop: the control process' other loops must go on.
                logger.exception("deployments failed", extra={"action": "deployments_failed"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def step(self) -> bool:
        """Look once; return whether anything was changed."""
        cell = await self._read()
        if not cell.deployments and not cell.assignments:
            return False
        if next_changes(cell, self._limits).is_nothing:
            return False
        async with self._store.transaction() as tx:
            await lock_deployments(tx)
            cell = await read_cell(tx, self._comparisons, cell.loads)
            changes = next_changes(cell, self._limits)
            await write_changes(tx, changes)
        _log(cell, changes)
        return not changes.is_nothing

    async def _read(self) -> CellView:
        """Return the cell, with comparisons and loads; the ledger is read every few seconds."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        async with self._store.transaction() as tx:
            cell = await read_cell(tx)
            if monotonic - self._compared_at >= _COMPARE_SECONDS:
                self._compared_at = monotonic
                self._comparisons = await read_comparisons(tx, cell, now)
                await self._loads.read_first_tokens(tx, cell.deployments, now)
            loads = await self._loads.read(tx, cell.deployments, monotonic)
        for each in cell.deployments:
            if each.name in loads and _is_news(each, loads[each.name]):
                await note_load(self._store, each.name, loads[each.name])
        return msgspec.structs.replace(cell, comparisons=self._comparisons, loads=loads)


def _is_news(deployment: DeploymentView, load: DeploymentLoad) -> bool:
    """Return whether a deployment's row should say of its load what it does not yet."""
    is_awake = deployment.target > 0 or load.samples[-1].waiting > 0
    is_busy = not load.idle_seconds and deployment.idle_seconds >= _NOTE_SECONDS
    last = load.last_start_seconds
    return (is_awake and is_busy) or (last is not None and last != deployment.start_seconds)


def _log(cell: CellView, changes: CellChanges) -> None:
    for placement in changes.placements:
        logger.info(
            "replica placed",
            extra={
                "action": "replica_placed",
                "deployment": placement.deployment,
                "hosts": placement.hosts,
            },
        )
    for name, target in changes.targets.items():
        logger.info(
            "deployment scaled",
            extra={
                "action": "deployment_scaled",
                "deployment": name,
                "replicas": target.count,
                "reason": target.reason,
            },
        )
    for each in cell.deployments:
        stage = changes.stages.get(each.name)
        if stage is not None and stage.stage is not each.stage:
            logger.info(
                "rollout moved",
                extra={
                    "action": "rollout_moved",
                    "deployment": each.name,
                    "stage": stage.stage.value,
                    "reason": stage.reason,
                },
            )
