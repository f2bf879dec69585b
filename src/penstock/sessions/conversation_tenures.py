"""One response at a time is written into a conversation: who may, until when, and what it adds.

The right is a tenure in the conversation's row, with an epoch that every write names. The process
that has it renews it; if that process dies, the tenure ends by itself.
"""

import asyncio
import logging
from typing import Final

from penstock.errors import ConversationLocked, StoreUnavailable
from penstock.records.account import AccountId
from penstock.sessions.conversation_book import SQL, ConversationBook, NewItems
from penstock.sessions.conversation_ids import ConversationId
from penstock.sessions.response_ids import ResponseId
from penstock.sessions.settings import ConversationsSettings
from penstock.sessions.tenure import Tenure
from penstock.store import Store, Transaction

# A response that runs as a job has its tenure until the job ends, which its own deadline ensures.
_UNTIL_ENDED_SECONDS: Final = 366 * 86_400.0
_RENEWALS_PER_TENURE: Final = 3
# Only tenures that were handed over to a job last longer than this.
_ORPHAN_SECONDS: Final = 86_400.0

logger = logging.getLogger(__name__)


class ConversationTenures:
    """Takes, renews and ends tenures of this process. Keep `run` running."""

    def __init__(
        self, store: Store, book: ConversationBook, settings: ConversationsSettings
    ) -> None:
        self._store = store
        self._book = book
        self._seconds = settings.tenure_seconds
        self._held: set[Tenure] = set()

    async def take(self, account: AccountId, id: ConversationId, response: ResponseId) -> Tenure:
        """Begin a response; ConversationLocked if another one is being written."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["take"], (response, self._seconds, id, account))
        if row is None:
            await self._book.find(account, id)
            raise ConversationLocked(param="conversation", retry_after_seconds=1)
        tenure = Tenure(id, row[0])
        self._held.add(tenure)
        return tenure

    def drop(self, tenure: Tenure) -> None:
        """Renew a tenure no longer: it ends by itself, unless somebody else ends it."""
        self._held.discard(tenure)

    async def hand_over(self, tx: Transaction, tenure: Tenure) -> None:
        """Give a tenure to the job that writes the response, in the transaction that queues it.

        It ends with the job; control ends it if there is no such response any more.
        """
        values = (_UNTIL_ENDED_SECONDS, [tenure.conversation], [tenure.epoch])
        await tx.execute(SQL["renew"], values)

    async def release_orphans(self) -> int:
        """End tenures of background responses that are not there any more; return how many."""
        async with self._store.statement() as statement:
            return await statement.execute(SQL["release_orphans"], (_ORPHAN_SECONDS,))

    async def release(self, tenure: Tenure) -> None:
        """End a response that adds nothing. If Postgres is away, the tenure ends by itself."""
        self._held.discard(tenure)
        try:
            async with self._store.statement() as statement:
                await statement.execute(SQL["release"], (tenure.conversation, tenure.epoch))
        except StoreUnavailable:
            logger.warning("conversation not released", extra={"action": "tenure_not_released"})

    async def release_in(self, tx: Transaction, tenure: Tenure) -> None:
        """End a response that adds nothing, in the caller's transaction."""
        await tx.execute(SQL["release"], (tenure.conversation, tenure.epoch))

    async def append(
        self, tx: Transaction, tenure: Tenure, account: AccountId, groups: list[NewItems]
    ) -> bool:
        """Write a response's input and output and end its tenure, in the caller's transaction.

        Return False, and write nothing, if the tenure has lapsed or the conversation is gone.
        """
        self._held.discard(tenure)
        row = await tx.fetch_one(SQL["end"], (tenure.conversation, tenure.epoch, account))
        if row is None:
            return False
        await self._book.insert(tx, tenure.conversation, row[0], groups)
        return True

    async def run(self) -> None:
        """Renew what this process holds, until cancelled."""
        while True:
            await asyncio.sleep(self._seconds / _RENEWALS_PER_TENURE)
            try:
                await self._renew()
            except StoreUnavailable:
                logger.warning("tenures not renewed", extra={"action": "tenures_not_renewed"})
            except Exception:
                # Catch everything at the loop's top: the worker has other work too.
                logger.exception("tenures not renewed", extra={"action": "tenures_not_renewed"})

    async def _renew(self) -> None:
        held = list(self._held)
        if held:
            ids, epochs = [each.conversation for each in held], [each.epoch for each in held]
            async with self._store.statement() as statement:
                await statement.execute(SQL["renew"], (self._seconds, ids, epochs))
