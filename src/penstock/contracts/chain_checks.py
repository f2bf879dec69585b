"""Keeps in Postgres how far the log of decisions is verified, and where its chains are broken."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

from penstock.contracts.decision_book import PagePlace
from penstock.contracts.decision_chain import Keep
from penstock.contracts.decision_queries import ChainHead, head_from
from penstock.contracts.decision_verifying import FAULTS_MAX, ChainFault
from penstock.store import Store, Transaction, read_queries

_SQL: Final = read_queries("penstock.contracts", "chain_checks.sql")
# A chain's previous row is on one of its last days, unless its process wrote nothing for a while.
_DAYS_AT_FIRST: Final = 2


class ChainChecks:
    """Reads ends of chains, whatever the number of their rows, and notes what was verified."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def days(self, keep: Keep) -> list[date]:
        """Return the days that the log has room for, oldest first."""
        async with self._store.statement() as statement:
            return [row[0] for row in await statement.fetch(_SQL["days"], (keep,))]

    async def ends(self, keep: Keep, day: date) -> list[ChainHead]:
        """Return the last row of each chain within a day."""
        async with self._store.statement() as statement:
            return [head_from(row) for row in await statement.fetch(_SQL["ends"], (keep, day) * 3)]

    async def verified(self, keep: Keep, since: date) -> dict[str, ChainHead]:
        """Return the last verified row of each chain, by holder, of rows since a day."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_SQL["verified"], (keep, since))
        return {head.holder: head for head in map(head_from, rows)}

    async def before(self, keep: Keep, holder: str, day: date, sequence: int) -> ChainHead | None:
        """Return the nearest row before one of a chain, or the last one that retention dropped."""
        days = [each for each in reversed(await self.days(keep)) if each <= day]
        # Rows first: what retention drops meanwhile is noted in the same transaction.
        async with self._store.statement() as statement:
            for some in (days[:_DAYS_AT_FIRST], days[_DAYS_AT_FIRST:]):
                row = await statement.fetch_one(_SQL["before"], (some, keep, holder, sequence))
                if row is not None:
                    return head_from(row)
            row = await statement.fetch_one(_SQL["start"], (keep, holder))
        return None if row is None else head_from(row)

    async def lost(self, since: date) -> list[ChainFault]:
        """Return the verified rows since a day that are gone, or are others now."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_SQL["lost"], (since, FAULTS_MAX))
        return [
            ChainFault(Keep(keep), holder, sequence, "missing" if is_gone else "another row")
            for keep, holder, sequence, is_gone in rows
        ]

    async def note(
        self, verified: Sequence[ChainHead], faults: Sequence[ChainFault], until: datetime
    ) -> list[ChainFault]:
        """Note rows as verified, and breaks to be reported; return the breaks that are new."""
        columns = (
            [head.keep for head in verified],
            [head.holder for head in verified],
            [head.day for head in verified],
            [head.sequence for head in verified],
            [bytes.fromhex(head.hash) for head in verified],
        )
        new: list[ChainFault] = []
        async with self._store.transaction() as transaction:
            await transaction.execute(_SQL["note_verified"], columns)
            for fault in faults:
                values = (fault.keep, fault.holder, fault.sequence, fault.problem)
                if await transaction.execute(_SQL["note_break"], (*values, until, FAULTS_MAX)):
                    new.append(fault)
        return new

    async def reread_place(self) -> PagePlace | None:
        """Return where the reading of the whole log stands; None at its beginning."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(_SQL["reread"])
        if row is None:
            return None
        keep, day, holder, sequence = row
        return PagePlace(keep=Keep(keep), day=day, holder=holder, sequence=sequence)

    async def note_reread(self, place: PagePlace) -> None:
        values = (place.keep, place.day, place.holder, place.sequence)
        async with self._store.statement() as statement:
            await statement.execute(_SQL["note_reread"], values)

    async def restart_reread(self, breaks_before: datetime) -> None:
        """Begin anew with the next pass, and drop what was noted of rows that are not kept."""
        async with self._store.transaction() as transaction:
            await transaction.execute(_SQL["restart_reread"])
            await transaction.execute(_SQL["drop_verified"], (breaks_before,))
            await transaction.execute(_SQL["drop_breaks"], (breaks_before,))


async def count_breaks(transaction: Transaction) -> int:
    """Return how many breaks of the log were found lately."""
    row = await transaction.fetch_one(_SQL["count_breaks"])
    assert row is not None, "a count is one row"
    return int(row[0])
