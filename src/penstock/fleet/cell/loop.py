"""The leading control process' loop that brings hosts closer to what deployments want."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.fleet.cell.comparing import read_comparisons
from penstock.fleet.cell.deployment_rows import lock_deployments, read_cell, write_changes
from penstock.fleet.cell.step import CellChanges, next_changes
from penstock.fleet.cell.view import CellLimits, CellView
from penstock.fleet.settings import FleetSettings
from penstock.store.pool import Store

if TYPE_CHECKING:
    from penstock.fleet.cell.rollout import Comparison

_LOOK_SECONDS: Final = 1.0
_COMPARE_SECONDS: Final = 10.0

logger = logging.getLogger(__name__)


class DeploymentLoop:
    """Looks every second, and changes rows only where something is to change.

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
        async with self._store.transaction() as tx:
            cell = await read_cell(tx, {})
        if not cell.deployments and not cell.assignments:
            return False
        cell = await self._with_comparisons(cell)
        if next_changes(cell, self._limits).is_nothing:
            return False
        async with self._store.transaction() as tx:
            await lock_deployments(tx)
            cell = await read_cell(tx, self._comparisons)
            changes = next_changes(cell, self._limits)
            await write_changes(tx, changes)
        _log(cell, changes)
        return not changes.is_nothing

    async def _with_comparisons(self, cell: CellView) -> CellView:
        now = self._clock.monotonic()
        if now - self._compared_at >= _COMPARE_SECONDS:
            self._compared_at = now
            self._comparisons = await read_comparisons(self._store, cell, self._clock.now())
        return CellView(cell.deployments, cell.hosts, cell.assignments, self._comparisons)


def _log(cell: CellView, changes: CellChanges) -> None:
    for placement in changes.placements:
        logger.info(
            "replica placed",
            extra={
                "action": "replica_placed",
                "deployment": placement.deployment,
                "host": placement.host,
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
