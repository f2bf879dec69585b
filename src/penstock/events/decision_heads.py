"""Sends the heads of the chains of decisions to an address outside, by a signed webhook.

Whoever owns the database could compute a whole chain anew. A head that is held outside shows that:
`penstock decisions verify --heads` finds every change up to it.
"""

import asyncio
import base64
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from penstock.clock import Clock, new_id
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.decision_queries import ChainHead
from penstock.contracts.settings import ContractsSettings
from penstock.errors import StoreUnavailable
from penstock.events.signatures import PREFIX, signed_headers
from penstock.outbound.sender import Sender

# A failed send is tried again after this time, or after `heads_seconds` if that is shorter.
_RETRY_SECONDS: Final = 60.0
# How far back to look where nothing was sent yet.
_FIRST_LOOK: Final = timedelta(days=30)
_DAY: Final = timedelta(days=1)
# Names are looked up for the cell itself, not for an account.
_NO_ACCOUNT: Final = ""

logger = logging.getLogger(__name__)


class HeadsEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The body of the webhook: the chains that went on since the last one, with their last rows."""

    id: str
    type: str = "decisions.heads"
    created_at: datetime
    heads: list[ChainHead]


class DecisionHeads:
    """Sends heads every `contracts.heads_seconds`, in the leading control."""

    def __init__(
        self, book: DecisionBook, sender: Sender, settings: ContractsSettings, clock: Clock
    ) -> None:
        self._book = book
        self._sender = sender
        self._settings = settings
        self._now = clock.now

    async def run(self) -> None:
        if not self._settings.heads_url:
            return
        every = self._settings.heads_seconds
        while True:
            try:
                is_sent = await self.send()
            except StoreUnavailable:
                is_sent = False
                logger.warning("heads of decisions wait", extra={"action": "heads_wait"})
            except Exception:
                # Caught here so that the other work of control goes on.
                is_sent = False
                logger.exception("heads of decisions not sent", extra={"action": "heads_failed"})
            await asyncio.sleep(every if is_sent else min(every, _RETRY_SECONDS))

    async def send(self) -> bool:
        """Send the heads that are new; return whether the receiver has them all."""
        now = datetime.fromtimestamp(self._now(), UTC)
        sent_at = await self._book.last_sent_at()
        since = now - _FIRST_LOOK if sent_at is None else sent_at - _DAY
        sent = await self._book.sent()
        heads = [
            head
            for head in await self._book.heads(since.date())
            if head.sequence > sent.get((head.keep, head.holder), 0)
        ]
        if not heads:
            return True
        event = HeadsEvent(id=new_id(), created_at=now, heads=heads)
        body = msgspec.json.encode(event)
        url = self._settings.heads_url
        taken = await self._sender.post(_NO_ACCOUNT, url, self._headers(event.id, body), body)
        if not taken.is_taken:
            fields = {"action": "heads_refused", "status": taken.status, "reason": taken.problem}
            logger.warning("heads of decisions not taken", extra=fields)
            return False
        await self._book.note_sent(heads)
        return True

    def _headers(self, id: str, body: bytes) -> list[tuple[str, str]]:
        secret = self._settings.heads_secret
        if not secret:
            return []
        return signed_headers(
            id, body, [base64.b64decode(secret.removeprefix(PREFIX))], self._now()
        )
