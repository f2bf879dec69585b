"""Says which responses a living gateway is still working on, so that no dead one leaves any open.

A response whose gateway runs tools has a row from its start. The gateway renews its tenure of it;
control ends the response if nobody does.
"""

import asyncio
import logging
from typing import Final

import msgspec

from penstock.errors import StoreUnavailable
from penstock.sessions.response_ids import ResponseId, day_of
from penstock.store import Store, Transaction, read_queries

SQL: Final = read_queries("penstock.sessions", "turns.sql")
_TENURE_SECONDS: Final = 10.0
_RENEW_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 1.0
_AT_ONCE: Final = 500
_INTERRUPTED: Final = {
    "code": "interrupted",
    "message": "The gateway that worked on this response has ended.",
}

logger = logging.getLogger(__name__)


class TurnTenures:
    """The tenures of one gateway worker. Keep `run` running."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: set[ResponseId] = set()

    async def begin(self, tx: Transaction, id: ResponseId) -> None:
        """Take the tenure of a response, in the transaction that writes its row."""
        await tx.execute(SQL["begin"], (id, day_of(id), _TENURE_SECONDS))
        self._held.add(id)

    async def end(self, tx: Transaction, id: ResponseId) -> None:
        """Give a tenure up, in the transaction that ends the response."""
        await tx.execute(SQL["end"], (id,))
        self._held.discard(id)

    def drop(self, id: ResponseId) -> None:
        """Renew a tenure no longer: control ends the response, unless it has ended."""
        self._held.discard(id)

    async def run(self) -> None:
        """Renew what this worker holds, until cancelled."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._renew()
            except StoreUnavailable:
                logger.warning("turns not renewed", extra={"action": "turns_not_renewed"})
            except Exception:
                # Catch everything at the loop's top: the worker has other work too.
                logger.exception("turns not renewed", extra={"action": "turns_not_renewed"})

    async def _renew(self) -> None:
        if self._held:
            async with self._store.statement() as statement:
                await statement.execute(SQL["renew"], (_TENURE_SECONDS, list(self._held)))


class LostTurns:
    """Ends responses whose gateway is gone, in the leading control process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> None:
        while True:
            try:
                if count := await self.end_them():
                    logger.info("turns ended", extra={"action": "turns_ended", "count": count})
            except StoreUnavailable:
                logger.warning("lost turns wait", extra={"action": "lost_turns_wait"})
            except Exception:
                # Catch everything at the loop's top: the control process has other work too.
                logger.exception("lost turns not ended", extra={"action": "lost_turns_failed"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def end_them(self) -> int:
        """End what is lost now; return how many responses."""
        told = msgspec.json.encode(_INTERRUPTED).decode()
        async with self._store.statement() as statement:
            return len(await statement.fetch(SQL["end_lost"], (_AT_ONCE, told)))
