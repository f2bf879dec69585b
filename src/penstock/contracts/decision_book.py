"""Writes the log of decisions into Postgres, and reads it. Rows are only ever added.

Drains bring gateways' and keepers' rows from their journals, and may bring one twice. Acts of
operators have no journal: they share one chain, which a lock serialises.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final, LiteralString

import msgspec

from penstock.clock import Clock
from penstock.contracts.decision_chain import (
    GENESIS,
    ChainPlace,
    DecisionLine,
    Keep,
    made_line,
    staged_line,
)
from penstock.contracts.decision_queries import (
    SQL,
    ChainHead,
    DecisionRow,
    head_from,
    row_from,
)
from penstock.records.decision import LoggedDecision
from penstock.records.decision_log import DecidedRequest
from penstock.store import Store, Transaction
from penstock.wire.resources.contract_effects import DecisionCount
from penstock.wire.resources.decisions import DecisionQuery

# The holder of operators' acts; journals have random ids.
OPERATORS: Final = "00000000-0000-0000-0000-000000000001"
# Before every holder.
NO_HOLDER: Final = "00000000-0000-0000-0000-000000000000"
# An arbitrary number that no other advisory lock in this database uses.
_LOCK: Final = "select pg_advisory_xact_lock(7309453216117)"
_DAYS_REMEMBERED: Final = 8
_BATCH_ROWS: Final = 5000
_NOT_OF_A_REQUEST: Final = DecidedRequest(id="", account="", key="", workflow="", contract="")


class PagePlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place within one day of the log: rows behind it come next."""

    keep: Keep
    day: date
    holder: str = NO_HOLDER
    sequence: int = 0


class DecisionBook:
    """The only writer of `decisions`. Also the port of the drain."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._now = clock.now
        self._days: set[tuple[str, date]] = set()

    async def make_days(self, lines: Sequence[bytes]) -> None:
        """Create the partitions of lines from journals, unless they exist."""
        await self._make_days({_day_of(line) for line in lines})

    async def write(self, transaction: Transaction, lines: Sequence[bytes]) -> None:
        """Add rows from journals; those that are there already stay as they are."""
        await transaction.execute(SQL["stage"])
        await transaction.copy(SQL["copy"], lines)
        await transaction.execute(SQL["insert"])

    async def note_act(self, actor: str, decision: LoggedDecision) -> None:
        """Add an act of an operator, before it takes effect."""
        now_us = int(self._now() * 1e6)
        await self._make_days({(Keep.LONG, _date_of(now_us))})
        async with self._store.transaction() as transaction:
            await transaction.execute(_LOCK)
            before = await transaction.fetch_one(SQL["end_of_chain"], (Keep.LONG, OPERATORS))
            if before is None:
                before = await transaction.fetch_one(SQL["start_of_chain"], (Keep.LONG, OPERATORS))
            sequence, digest, at_us = before or (0, GENESIS, 0)
            place = ChainPlace(Keep.LONG, OPERATORS, sequence + 1, max(now_us, at_us))
            line = made_line(place, _NOT_OF_A_REQUEST, decision, actor)
            staged, _ = staged_line(bytes(digest), line)
            await self.write(transaction, [staged])

    async def find(self, query: DecisionQuery) -> list[DecisionRow]:
        """Return decisions, newest first."""
        conditions: list[LiteralString] = [SQL["find"]]
        values: list[object] = [query.since.astimezone(UTC).date(), query.since, query.until]
        for condition, value in _conditions(query):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        conditions.append(SQL["newest"])
        async with self._store.statement() as statement:
            rows = await statement.fetch(" ".join(conditions), (*values, query.limit))
        return [row_from(row) for row in rows]

    async def sums(
        self, since: datetime, until: datetime, account: str | None, workflow: str | None
    ) -> dict[str, list[DecisionCount]]:
        """Return how often each contract decided what, in whole hours."""
        values = (since, until, account, account, workflow, workflow)
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["sums"], values)
        found: dict[str, list[DecisionCount]] = {}
        for contract, *counted in rows:
            found.setdefault(contract, []).append(DecisionCount(*counted))
        return found

    async def days(self, keep: Keep) -> list[date]:
        """Return the days that have rows, oldest first."""
        async with self._store.statement() as statement:
            return [row[0] for row in await statement.fetch(SQL["days"], (keep,))]

    async def page(self, after: PagePlace, limit: int) -> list[DecisionRow]:
        """Return the rows of a day behind a place, by holder and number."""
        return await self._page("page", after, limit)

    async def chain_page(self, after: PagePlace, limit: int) -> list[DecisionRow]:
        """Return the rows of one chain and day behind a place."""
        return await self._page("chain_page", after, limit)

    async def starts(self) -> list[ChainHead]:
        """Return the last row of each chain that retention has dropped."""
        async with self._store.statement() as statement:
            return [head_from(row) for row in await statement.fetch(SQL["starts"])]

    async def heads(self, since: date) -> list[ChainHead]:
        """Return the last row of each chain that went on since a day."""
        async with self._store.statement() as statement:
            return [head_from(row) for row in await statement.fetch(SQL["heads"], (since,))]

    async def sent(self) -> dict[tuple[str, str], int]:
        """Return how far each chain's heads were sent outside, by keep and holder."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(SQL["sent"])
        return {(row[0], row[1]): row[2] for row in rows}

    async def last_sent_at(self) -> datetime | None:
        """Return when heads were sent last; None if never."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one("select max(sent_at) from decision_heads")
        assert row is not None, "an aggregate is one row"
        found: datetime | None = row[0]
        return found

    async def note_sent(self, heads: Sequence[ChainHead]) -> None:
        columns = (
            [head.keep for head in heads],
            [head.holder for head in heads],
            [head.sequence for head in heads],
            [bytes.fromhex(head.hash) for head in heads],
        )
        async with self._store.statement() as statement:
            await statement.execute(SQL["note_sent"], columns)

    async def drop_before(self, keep: Keep, day: date) -> int:
        """Drop whole days before one; return how many. Where chains go on is noted."""
        async with self._store.transaction() as transaction:
            dropped = await transaction.fetch_one(SQL["drop_days"], (keep, day))
            if keep is Keep.LONG:
                await transaction.execute(SQL["drop_heads"], (day,))
        if keep is Keep.LONG:
            await self._drop_sums(day)
        assert dropped is not None, "a count is one row"
        return int(dropped[0])

    async def _page(self, name: str, after: PagePlace, limit: int) -> list[DecisionRow]:
        values = (after.keep, after.day, after.holder, after.sequence, limit)
        async with self._store.statement() as statement:
            return [row_from(row) for row in await statement.fetch(SQL[name], values)]

    async def _drop_sums(self, before: date) -> None:
        """Delete in batches: one transaction for all could time out each time."""
        deleted = _BATCH_ROWS
        while deleted == _BATCH_ROWS:
            async with self._store.transaction() as transaction:
                deleted = await transaction.execute(SQL["drop_sums"], (before, _BATCH_ROWS))

    async def _make_days(self, wanted: set[tuple[str, date]]) -> None:
        for keep, day in sorted(wanted - self._days):
            # Not in the batch's transaction: Postgres locks a new table until the commit.
            async with self._store.transaction() as transaction:
                await transaction.execute("select make_decision_day(%s, %s)", (keep, day))
            self._days = set(sorted(self._days | {(keep, day)})[-_DAYS_REMEMBERED:])


def _conditions(query: DecisionQuery) -> list[tuple[LiteralString, object]]:
    name_of_contract: LiteralString = "and split_part(contract, '@', 1) = %s"
    if query.contract is not None and "@" in query.contract:
        name_of_contract = "and contract = %s"
    return [
        ("and request = %s::uuid", query.request),
        ("and account = %s", query.account),
        ("and workflow = %s", query.workflow),
        (name_of_contract, query.contract),
        ("and kind = %s", query.kind),
        ("and verdict = %s", query.verdict),
        ("and actor = %s", query.actor),
    ]


def _day_of(line: bytes) -> tuple[str, date]:
    encoded = line.split(b"\t")[2].replace(b"\\\\", b"\\")
    decoded = msgspec.json.decode(encoded, type=DecisionLine)
    return decoded.keep, _date_of(decoded.at_us)


def _date_of(at_us: int) -> date:
    return datetime.fromtimestamp(at_us / 1e6, UTC).date()
