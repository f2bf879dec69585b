"""Verifies the log of decisions all the time, in the leading control process.

A pass verifies the rows that are new, and with what is left of its rows it reads the whole log once
more, a part at each pass: a row may be changed after it was verified. Where it stands is in
Postgres, so that another control process goes on from there. `penstock decisions verify` trusts
nothing that stands there, and computes all hashes on the machine of whoever runs it.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from penstock.clock import Clock
from penstock.contracts.chain_checks import ChainChecks
from penstock.contracts.decision_book import DecisionBook, PagePlace
from penstock.contracts.decision_chain import Keep
from penstock.contracts.decision_queries import ChainHead, DecisionRow
from penstock.contracts.decision_verifying import ChainFault, ChainVerifier
from penstock.contracts.settings import ContractsSettings
from penstock.errors import StoreUnavailable

# How far back a pass looks for new rows. Those that a journal brings later are found by rereading.
_NEW_DAYS: Final = 2
# So few that other loops of control do not wait for their hashes.
_PAGE_ROWS: Final = 200
# An empty page counts as so many rows, so that days without rows use up a pass, too.
_PAGE_COST: Final = 20
# Rereading goes on, by this share of the rows, where more is new than a pass verifies.
_REREAD_SHARE: Final = 0.1

logger = logging.getLogger(__name__)


class ChainWatch:
    """Looks every `contracts.verify_seconds`."""

    def __init__(
        self, log: DecisionBook, checks: ChainChecks, settings: ContractsSettings, clock: Clock
    ) -> None:
        self._log = log
        self._checks = checks
        self._settings = settings
        self._now = clock.now

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreUnavailable:
                logger.warning("log not verified", extra={"action": "log_unverified"})
            except Exception:
                # Caught here so that the other work of control goes on.
                logger.exception("log not verified", extra={"action": "log_unverified"})
            await asyncio.sleep(self._settings.verify_seconds)

    async def look(self) -> None:
        """Verify what is new, and then a part of the whole log."""
        rows_max = self._settings.verify_rows_max
        since = self._today() - timedelta(days=_NEW_DAYS)
        left = await self._verify_new(since, rows_max)
        await self._note([], await self._checks.lost(since))
        await self._reread(max(left, round(rows_max * _REREAD_SHARE), 1))

    async def _verify_new(self, since: date, left: int) -> int:
        """Verify rows behind the last verified one of each chain; return how many rows are left."""
        for keep in Keep:
            verified = await self._checks.verified(keep, since)
            for day in await self._checks.days(keep):
                ends = await self._checks.ends(keep, day) if day >= since else []
                for end in ends:
                    known = verified.get(end.holder)
                    while left > 0 and (known is None or known.sequence < end.sequence):
                        sequence = 0 if known is None else known.sequence
                        after = PagePlace(keep=keep, day=day, holder=end.holder, sequence=sequence)
                        limit = min(_PAGE_ROWS, left)
                        rows = await self._log.chain_page(after, limit)
                        if not rows:
                            # Gone since `ends`: rereading finds out whether retention dropped them.
                            break
                        known = await self._verify(after, rows, known)
                        verified[end.holder] = known
                        left -= len(rows)
        return left

    async def _reread(self, left: int) -> None:
        """Verify the next rows of the log; at its end, look for ends of chains that are gone."""
        place = await self._checks.reread_place()
        keeps = list(Keep)
        for keep in keeps if place is None else keeps[keeps.index(place.keep) :]:
            for day in await self._checks.days(keep):
                after = PagePlace(keep=keep, day=day)
                if place is not None and place.keep is keep and day <= place.day:
                    if day < place.day:
                        continue
                    after = place
                is_over = False
                while left > 0 and not is_over:
                    limit = min(_PAGE_ROWS, left)
                    rows = await self._log.page(after, limit)
                    if rows:
                        end = await self._verify(after, rows, None)
                        after = PagePlace(
                            keep=keep, day=day, holder=end.holder, sequence=end.sequence
                        )
                    is_over = len(rows) < limit
                    left -= len(rows) + _PAGE_COST
                if not is_over:
                    await self._checks.note_reread(after)
                    return
        await self._note([], await self._checks.lost(date.min))
        kept = timedelta(days=self._settings.decision_days)
        await self._checks.restart_reread(self._at() - kept)

    async def _verify(
        self, page: PagePlace, rows: Sequence[DecisionRow], known: ChainHead | None
    ) -> ChainHead:
        """Verify rows of one day, note it, and return the last one; `known` is one before them."""
        heads = [row.head(page.day) for row in rows]
        firsts = {head.holder: head for head in reversed(heads)}
        starts: dict[str, ChainHead] = {}
        for holder, first in firsts.items():
            before = known
            if known is None or known.holder != holder or known.sequence + 1 != first.sequence:
                before = await self._checks.before(page.keep, holder, page.day, first.sequence)
            if before is not None:
                starts[holder] = before
        verifier = ChainVerifier(page.keep, starts.values())
        for row, head in zip(rows, heads, strict=True):
            start = starts.get(head.holder)
            if start is not None and head.sequence <= start.sequence:
                # Retention dropped it since it was read.
                continue
            verifier.take(row, page.day)
        # The last row of each chain of the page.
        await self._note(list({head.holder: head for head in heads}.values()), verifier.faults)
        return heads[-1]

    async def _note(self, verified: Sequence[ChainHead], faults: Sequence[ChainFault]) -> None:
        if not verified and not faults:
            return
        until = self._at() + timedelta(days=self._settings.breaks_days)
        for fault in await self._checks.note(verified, faults, until):
            fields = {"keep": str(fault.keep), "holder": fault.holder, "sequence": fault.sequence}
            fields |= {"problem": fault.problem, "action": "chain_broken"}
            logger.error("log of decisions is broken", extra=fields)

    def _at(self) -> datetime:
        return datetime.fromtimestamp(self._now(), UTC)

    def _today(self) -> date:
        return self._at().date()
