"""Control verifies the log of decisions all the time, and gateways report what is broken."""

import asyncio
from datetime import date, timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest
from tests.integration.cells.control_process import control_process
from tests.integration.cells.gateway_cell import CellFactory
from tests.integration.cells.gateway_process import Settings, eventually
from tests.integration.contracts.decision_worker import CLOCK, TAMPERED, DecisionWorker, tamper
from tests.unit.contracts.decision_rows import ALLOWED, DECIDED, DENIED

from penstock.clock import Clock, new_id
from penstock.contracts.chain_checks import ChainChecks, count_breaks
from penstock.contracts.chain_watch import ChainWatch
from penstock.contracts.decision_book import DecisionBook, PagePlace
from penstock.contracts.decision_chain import DecisionChains, Keep
from penstock.contracts.decision_queries import DecisionRow
from penstock.contracts.decision_retention import DecisionRetention
from penstock.contracts.decision_verifying import FAULTS_MAX
from penstock.contracts.settings import ContractsSettings
from penstock.errors import StoreUnavailable
from penstock.records.decision import LoggedDecision
from penstock.store import Store
from penstock.testing.manual_clock import ManualClock

_DAY_SECONDS = 86_400
_FIRST_AT = 1_790_000_000.0


def _watch(store: Store, rows_max: int = 1000, clock: Clock = CLOCK) -> ChainWatch:
    settings = ContractsSettings(verify_rows_max=rows_max)
    return ChainWatch(DecisionBook(store, clock), ChainChecks(store), settings, clock)


async def _breaks(store: Store) -> int:
    async with store.transaction() as transaction:
        return await count_breaks(transaction)


async def _reported(store: Store) -> None:
    """Wait for a break."""
    while True:
        if await _breaks(store):
            return
        await asyncio.sleep(0.05)


async def _found(store: Store) -> list[tuple[str, int, str]]:
    async with store.transaction() as transaction:
        rows = await transaction.fetch(
            "select holder::text, sequence, problem from decision_breaks order by 1, 2, 3"
        )
    return [(row[0], row[1], row[2]) for row in rows]


async def _write(
    store: Store, chains: DecisionChains, count: int, at: float, decision: LoggedDecision = DENIED
) -> None:
    """Add rows of one moment, as a drain does."""
    lines = []
    for _ in range(count):
        line = chains.next_line(int(at * 1e6), DECIDED, decision)
        text, digest = chains.staged(line)
        chains.advance(line, digest)
        lines.append(text)
    book = DecisionBook(store, CLOCK)
    await book.make_days(lines)
    async with store.transaction() as transaction:
        await book.write(transaction, lines)


async def test_a_log_that_nobody_touched_has_no_break(store: Store, tmp_path: Path) -> None:
    workers = [DecisionWorker(store, tmp_path / str(number)) for number in range(3)]
    watch = _watch(store)
    await watch.look()
    for _ in range(3):
        for worker in workers:
            worker.decide(7)
            worker.decide(2, ALLOWED)
            await worker.drain.empty()
        await DecisionBook(store, CLOCK).note_act("key 1", DENIED)
        await watch.look()
    assert await _found(store) == []
    assert await _breaks(store) == 0


@pytest.mark.parametrize("is_verified_before", [False, True])
@pytest.mark.parametrize("how", [*TAMPERED, "a deleted end", "two rows less"])
async def test_a_row_that_was_tampered_with_is_found(
    store: Store, dsn: str, tmp_path: Path, how: str, *, is_verified_before: bool
) -> None:
    statement, sequence = {
        **TAMPERED,
        "a deleted end": ("delete from decisions where sequence > 9", 12),
        "two rows less": ("delete from decisions where sequence in (7, 12)", 7),
    }[how]
    worker = DecisionWorker(store, tmp_path)
    watch = _watch(store)
    for number in range(12):
        worker.decide(1, msgspec.structs.replace(DENIED, subjects=(f"tool {number}",)))
    await worker.drain.empty()
    if is_verified_before:
        await watch.look()
        assert await _found(store) == []
    tamper(dsn, statement)
    await watch.look()
    found = [(holder, number) for holder, number, _ in await _found(store)]
    if how == "a deleted end" and not is_verified_before:
        # Only a head that is held outside would show it: nobody here has seen these rows.
        assert found == []
        return
    assert (worker.journal.holder, sequence) in found
    # What was found is found once, also by the next passes.
    breaks = await _breaks(store)
    await _watch(store).look()
    assert await _breaks(store) == breaks >= 1


async def test_rows_are_verified_a_few_at_a_time_and_by_whoever_leads(
    store: Store, dsn: str
) -> None:
    """Each pass is made by another control process, which has only what is in Postgres."""
    now = ManualClock(now=_FIRST_AT + 5 * _DAY_SECONDS)
    chains = [DecisionChains(new_id()) for _ in range(3)]
    for day in range(6):
        for each in chains:
            await _write(store, each, 5, _FIRST_AT + day * _DAY_SECONDS)
            await _write(store, each, 1, _FIRST_AT + day * _DAY_SECONDS, ALLOWED)
    for _ in range(40):
        await _watch(store, 8, now).look()
    assert await _found(store) == []
    tamper(dsn, "update decisions set account = 'b' where sequence = 3 and keep = 'long'")
    passes = 0
    while len(await _found(store)) < 3:
        await _watch(store, 8, now).look()
        passes += 1
        # Of each of twelve pages of a day, of which the longest takes two.
        assert passes < 25
    assert passes > 1
    assert {number for _, number, _ in await _found(store)} == {3}


async def test_new_rows_come_before_old_ones(store: Store, dsn: str) -> None:
    """A log of months is read in small parts; what is new is verified by the next pass."""
    old, new = DecisionChains(new_id()), DecisionChains(new_id())
    for day in range(30):
        await _write(store, old, 20, _FIRST_AT + day * _DAY_SECONDS)
    now = ManualClock(now=_FIRST_AT + 40 * _DAY_SECONDS)
    await _watch(store, 50, now).look()
    await _write(store, new, 4, now.now())
    # It goes on behind rows that nobody has verified yet.
    await _write(store, old, 4, now.now())
    tamper(dsn, f"update decisions set reason = '' where at > to_timestamp({now.now() - 60})")
    await _watch(store, 50, now).look()
    assert {number for _, number, _ in await _found(store)} == {1, 2, 3, 4, 601, 602, 603, 604}


async def test_what_retention_drops_is_no_break(store: Store) -> None:
    """Between any two passes, also where a chain had no row for weeks, and one ends."""
    clock = ManualClock(now=_FIRST_AT)
    going, pausing, ending = (DecisionChains(new_id()) for _ in range(3))
    watch = _watch(store, 12, clock)
    retention = DecisionRetention(
        DecisionBook(store, clock), ContractsSettings(decision_days=4, allowed_days=2), clock
    )
    dropped = 0
    for day in range(20):
        at = _FIRST_AT + day * _DAY_SECONDS
        clock.advance(at - clock.now())
        await _write(store, going, 5, at)
        await _write(store, going, 2, at, ALLOWED)
        if day % 9 == 0:
            await _write(store, pausing, 3, at)
        if day < 3:
            await _write(store, ending, 3, at)
        await watch.look()
        dropped += await retention.drop_old()
        await watch.look()
    assert dropped > 20
    for _ in range(20):
        await watch.look()
    assert await _found(store) == []
    async with store.transaction() as transaction:
        [(kept,)] = await transaction.fetch("select count(*) from decision_checks")
    assert kept <= 3


async def test_rows_that_are_drained_while_a_pass_reads_are_no_break(
    store: Store, tmp_path: Path
) -> None:
    workers = [DecisionWorker(store, tmp_path / str(number)) for number in range(4)]
    is_over = False

    async def write() -> None:
        nonlocal is_over
        for number in range(30):
            for worker in workers:
                worker.decide(20, ALLOWED if number % 5 == 0 else DENIED)
                await worker.drain.empty()
        is_over = True

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        while not is_over:
            await _watch(store, 300).look()
    await _watch(store, 10_000).look()
    assert await _found(store) == []


class _DroppedOnceRead(DecisionBook):
    """Retention drops each page's day when the page has been read."""

    async def page(self, after: PagePlace, limit: int) -> list[DecisionRow]:
        rows = await super().page(after, limit)
        await self.drop_before(after.keep, after.day + timedelta(days=1))
        return rows

    async def chain_page(self, after: PagePlace, limit: int) -> list[DecisionRow]:
        rows = await super().chain_page(after, limit)
        await self.drop_before(after.keep, after.day + timedelta(days=1))
        return rows


@pytest.mark.parametrize("is_new", [False, True])
async def test_what_retention_drops_while_a_pass_reads_is_no_break(
    store: Store, *, is_new: bool
) -> None:
    chains = [DecisionChains(new_id()) for _ in range(2)]
    for day in range(4):
        for each in chains:
            await _write(store, each, 5, _FIRST_AT + day * _DAY_SECONDS)
    now = ManualClock(now=_FIRST_AT + (2 if is_new else 30) * _DAY_SECONDS)
    settings = ContractsSettings(verify_rows_max=1000)
    watch = ChainWatch(_DroppedOnceRead(store, now), ChainChecks(store), settings, now)
    for _ in range(3):
        await watch.look()
    assert await _found(store) == []
    async with store.transaction() as transaction:
        assert await transaction.fetch("select from decisions") == []


class _TroubledChecks(ChainChecks):
    """Fails in both ways before it works."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.troubles: list[Exception] = [StoreUnavailable(), ValueError("a fault of ours")]

    async def days(self, keep: Keep) -> list[date]:
        if self.troubles:
            raise self.troubles.pop(0)
        return await super().days(keep)


async def test_it_goes_on_after_a_failure(store: Store, dsn: str) -> None:
    await _write(store, DecisionChains(new_id()), 5, CLOCK.now())
    tamper(dsn, "delete from decisions where sequence = 2")
    checks, settings = _TroubledChecks(store), ContractsSettings(verify_seconds=0.05)
    watch = ChainWatch(DecisionBook(store, CLOCK), checks, settings, CLOCK)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = group.create_task(watch.run())
        await _reported(store)
        running.cancel()
    assert checks.troubles == []


async def test_a_break_is_reported_for_some_days(store: Store, dsn: str) -> None:
    clock = ManualClock(now=CLOCK.now() - 8 * _DAY_SECONDS)
    await _write(store, DecisionChains(new_id()), 5, clock.now())
    tamper(dsn, "delete from decisions where sequence = 2")
    await _watch(store, 100, clock).look()
    assert await _found(store) != []
    # The seven days are over.
    assert await _breaks(store) == 0


async def test_old_breaks_do_not_hide_a_new_one(store: Store, dsn: str) -> None:
    await _write(store, DecisionChains(new_id()), 5, CLOCK.now())
    tamper(dsn, "delete from decisions where sequence = 2")
    tamper(
        dsn,
        "insert into decision_breaks (keep, holder, sequence, problem, reported_until)"
        f" select 'long', '{new_id()}', n, 'changed', now() - interval '1 day'"
        f" from generate_series(1, {FAULTS_MAX}) n",
    )
    await _watch(store).look()
    assert await _breaks(store) == 1


def test_gateways_report_a_break_that_the_leading_control_finds(
    cells: CellFactory, tmp_path: Path
) -> None:
    with cells.open() as cell:
        cell.set_up()
        settings: Settings = {
            "contracts.verify_seconds": 0.1,
            "store.cell_key_file": cell.key_file,
        }

        def reports(breaks: int) -> bool:
            return cell.gateway.metric("penstock_decision_chain_breaks") == breaks

        cell.run(_act)
        with control_process(cell.dsn, tmp_path, settings):
            eventually(lambda: _is_verified(cell.dsn), 10)
            # Gateways read such figures every 5 s.
            eventually(lambda: reports(0), 10)
        cell.run(_act)
        tamper(cell.dsn, "update decisions set actor = 'nobody' where sequence = 1")
        with control_process(cell.dsn, tmp_path, settings):
            eventually(lambda: reports(1), 15)


async def _act(store: Store) -> None:
    await DecisionBook(store, CLOCK).note_act("key 1", DENIED)


def _is_verified(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        return connection.execute("select from decision_checks").fetchone() is not None
