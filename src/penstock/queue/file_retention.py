"""Deletes expired files with their contents."""

import asyncio
import logging
from typing import Final

from penstock.errors import StoreUnavailable
from penstock.queue.files import Files

_LOOK_SECONDS: Final = 600.0

logger = logging.getLogger(__name__)


class FileRetention:
    """Deletes expired files every ten minutes, in the leading control process."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self) -> None:
        while True:
            try:
                while await self._files.drop_expired():
                    logger.info("old files dropped", extra={"action": "files_dropped"})
            except StoreUnavailable:
                logger.warning("old files not dropped", extra={"action": "files_wait"})
            except Exception:
                # Catch everything at the loop's top: the control process has other work too.
                logger.exception("old files not dropped", extra={"action": "files_failed"})
            await asyncio.sleep(_LOOK_SECONDS)
