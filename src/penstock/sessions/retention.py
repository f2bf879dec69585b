"""Deletes responses that are too old and conversations that nobody uses, with their objects."""

import asyncio
import logging
from typing import Final

from penstock.errors import StoreUnavailable
from penstock.sessions.conversation_upkeep import ConversationUpkeep
from penstock.sessions.response_upkeep import ResponseUpkeep

_LOOK_SECONDS: Final = 600.0

logger = logging.getLogger(__name__)


class SessionRetention:
    """Deletes what is old every ten minutes, in the leading control process."""

    def __init__(self, responses: ResponseUpkeep, conversations: ConversationUpkeep) -> None:
        self._responses = responses
        self._conversations = conversations

    async def run(self) -> None:
        while True:
            try:
                await self._drop()
            except StoreUnavailable:
                logger.warning("old sessions not dropped", extra={"action": "sessions_wait"})
            except Exception:
                # Catch everything at the loop's top: the control process has other work too.
                logger.exception("old sessions not dropped", extra={"action": "sessions_failed"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def _drop(self) -> None:
        if days := await self._responses.drop_old():
            logger.info("responses dropped", extra={"action": "responses_dropped", "days": days})
        while count := await self._conversations.drop_idle():
            logger.info(
                "conversations dropped", extra={"action": "conversations_dropped", "count": count}
            )
