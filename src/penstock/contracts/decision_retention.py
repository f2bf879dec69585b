"""Drops whole days of the log of decisions that are past their retention."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.clock import Clock
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.decision_chain import Keep
from penstock.contracts.settings import ContractsSettings
from penstock.errors import StoreUnavailable

_LOOK_SECONDS: Final = 3600.0

logger = logging.getLogger(__name__)


class DecisionRetention:
    """Looks once an hour, in the leading control process."""

    def __init__(self, book: DecisionBook, settings: ContractsSettings, clock: Clock) -> None:
        self._book = book
        self._days = {Keep.LONG: settings.decision_days, Keep.SHORT: settings.allowed_days}
        self._now = clock.now

    async def run(self) -> None:
        while True:
            try:
                await self.drop_old()
            except StoreUnavailable:
                logger.warning("old decisions not dropped", extra={"action": "decisions_kept"})
            except Exception:
                # Caught here so that the other work of control goes on.
                logger.exception("old decisions not dropped", extra={"action": "decisions_kept"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def drop_old(self) -> int:
        """Drop old days now; return how many."""
        today = datetime.fromtimestamp(self._now(), UTC).date()
        return sum(
            [
                await self._book.drop_before(keep, today - timedelta(days=days))
                for keep, days in self._days.items()
            ]
        )
