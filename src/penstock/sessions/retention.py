"""Deletes responses that are too old, with their objects."""

import asyncio
import logging
from typing import Final

from penstock.errors import StoreUnavailable
from penstock.sessions.response_upkeep import ResponseUpkeep

_LOOK_SECONDS: Final = 600.0

logger = logging.getLogger(__name__)


class ResponseRetention:
    """Deletes old responses every ten minutes, in the leading control process."""

    def __init__(self, upkeep: ResponseUpkeep) -> None:
        self._upkeep = upkeep

    async def run(self) -> None:
        while True:
            try:
                if await self._upkeep.drop_old():
                    logger.info("old responses dropped", extra={"action": "responses_dropped"})
            except StoreUnavailable:
                logger.warning("old responses not dropped", extra={"action": "responses_wait"})
            except Exception:
                # Catch everything at the loop's top: the control process has other work too.
                logger.exception("old responses not dropped", extra={"action": "responses_failed"})
            await asyncio.sleep(_LOOK_SECONDS)
