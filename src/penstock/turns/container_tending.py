"""Ends containers, charges their time, and deletes what is old of them, for the whole cell."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.errors import StoreUnavailable
from penstock.metering.container_spend import count_container_spend
from penstock.store import Store
from penstock.tools import ContainerUpkeep

_LOOK_SECONDS: Final = 15.0

logger = logging.getLogger(__name__)


class ContainerTending:
    """A loop of the leading control process."""

    def __init__(self, store: Store, upkeep: ContainerUpkeep) -> None:
        self._store = store
        self._upkeep = upkeep

    async def run(self) -> None:
        while True:
            # First ends, so that no time after them is charged.
            await self._try(self._upkeep.end_old, "containers_ended")
            await self._try(self.charge, "containers_charged")
            await self._try(self._upkeep.drop_old, "containers_dropped")
            await asyncio.sleep(_LOOK_SECONDS)

    async def charge(self) -> int:
        """Charge what is due; return how many charges there were.

        A charge, the mark up to when a container is charged, and what limits count are one
        transaction: if this process is killed, none of them happened.
        """
        count = 0
        while True:
            async with self._store.transaction() as tx:
                charges = await self._upkeep.take_uncharged(tx)
                await count_container_spend(
                    tx, [(each.account, each.nanousd, each.at) for each in charges]
                )
            if not charges:
                return count
            count += len(charges)

    @staticmethod
    async def _try(work: Callable[[], Awaitable[int]], action: str) -> None:
        try:
            if count := await work():
                logger.info("containers tended", extra={"action": action, "count": count})
        except StoreUnavailable:
            logger.warning("containers not tended", extra={"action": "containers_wait"})
        except Exception:
            # Catch everything at the loop's top: the control process has other work too.
            logger.exception("containers not tended", extra={"action": "containers_failed"})
