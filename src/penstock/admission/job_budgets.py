"""Holds money for jobs from their account's limits, from submission to the job's end.

Each balance has one lease for all jobs, under one holder that is no process: one process submits a
job and another finishes it. `hold_jobs` locks the balances, as gateways do, so jobs and requests
together never exceed a hard limit. Rates do not apply to jobs: only limits on money do. Callers use
this last in a transaction, after the queue's part, so that all take locks in the same order.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from penstock.admission.division import Shortage
from penstock.admission.lease_table import LeaseTable
from penstock.admission.limit_rows import limit_from
from penstock.admission.limit_table import EACH, as_stored, contract_of, owned_value
from penstock.admission.refusal import refusal
from penstock.admission.window_balance import BalanceKey, Reading, WindowBalance
from penstock.admission.windows import window_of
from penstock.records.account import AccountId, KeyId
from penstock.records.job import Released, Ticket
from penstock.records.limit import FLEX_HOLDER, Limit, Measure, Scope
from penstock.store import Transaction

_MONEY_LIMITS: Final = """
    select id, account, scope, value, measure, period, amount, is_hard, contract from limits
    where (account = %s or account is null and contract = any(%s))
        and measure = 'nanousd' and not is_removed order by id
"""
_HOLD: Final = """
    insert into leases as e (limit_id, value, window_start, holder, granted)
    select limit_id, value, to_timestamp(starts), %s::uuid, granted
    from unnest(%s::bigint[], %s::text[], %s::float8[], %s::bigint[])
        as pot (limit_id, value, starts, granted)
    order by 1, 2, 3
    on conflict (limit_id, value, window_start, holder) do update set
        granted = e.granted + excluded.granted
"""
# Without the balances' locks: this makes more free, or counts what was already spent. A lease of a
# window that ended long ago may be gone, and is not made again.
_CHANGE: Final = """
    with wanted as (
        select l.id as limit_id, sum(job.change) as change,
            limit_value(
                l.contract, l.scope, l.value, job.account, job.key, job.workflow, job.session
            ) as value,
            date_trunc(l.period, to_timestamp(job.asked_at), 'UTC') as window_start
        from unnest(
            %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::float8[],
            %s::bigint[]
        ) as job (limit_id, account, key, workflow, session, asked_at, change)
        join limits l on l.id = job.limit_id
        group by 1, 3, 4
    ), mine as materialized (
        -- In one order everywhere, so that no two can wait for each other.
        select e.limit_id, e.value, e.window_start, e.holder, wanted.change
        from leases e join wanted using (limit_id, value, window_start)
        where e.holder = %s::uuid and wanted.change <> 0
        order by 1, 2, 3 for update of e
    )
    update leases e set granted = greatest(0, e.granted + mine.change) from mine
    where (e.limit_id, e.value, e.window_start, e.holder)
        = (mine.limit_id, mine.value, mine.window_start, mine.holder)
"""


class Settlement(msgspec.Struct, frozen=True):
    """What a job had held when it was finished, and what it cost."""

    held: Released
    charge_nanousd: int


class Moment(msgspec.Struct, frozen=True):
    """The time of a request for money, and how soon gateways return unused leases."""

    now: float
    lease_return_seconds: float


async def find_money_limits(
    transaction: Transaction, account: AccountId, contracts: Iterable[str] = ()
) -> tuple[Limit, ...]:
    """Return the current limits on money, hard and soft, of an account and of these contracts."""
    rows = await transaction.fetch(_MONEY_LIMITS, (account, sorted(contracts)))
    return tuple(map(limit_from, rows))


def limits_counting(limits: Iterable[Limit], key: KeyId, ticket: Ticket) -> tuple[int, ...]:
    """Return the ids of the limits that count a job. Pure; same rule as `LimitTable.counting`."""
    labels = {Scope.KEY: key, Scope.WORKFLOW: ticket.workflow, Scope.SESSION: ticket.session}
    contract = contract_of(ticket.contract)

    def counts(limit: Limit) -> bool:
        if limit.contract:
            is_named = limit.scope is Scope.WORKFLOW or bool(as_stored(ticket.session))
            return limit.contract == contract and is_named
        if limit.scope is Scope.ACCOUNT:
            return True
        label = as_stored(labels[limit.scope])
        return bool(label) and limit.value in (EACH, label)

    return tuple(limit.id for limit in limits if counts(limit))


async def hold_jobs(
    transaction: Transaction, limits: Sequence[Limit], jobs: Sequence[Released], moment: Moment
) -> None:
    """Hold what these jobs may cost; raise BudgetSpent if a hard limit leaves too little."""
    wanted = _balances(limits, jobs)
    if not wanted:
        return
    balances = [balance for balance, _ in wanted]
    table = LeaseTable(FLEX_HOLDER, moment.lease_return_seconds)
    await table.lock(transaction, balances)
    readings = await table.read(transaction, balances)
    for balance, needed in wanted:
        shortage = _shortage(balance, needed, readings[balance.key])
        if shortage is not None:
            raise refusal(shortage, moment.now, moment.lease_return_seconds)
    keys = [balance.key for balance in balances]
    columns = [list(column) for column in zip(*keys, strict=True)]
    await transaction.execute(_HOLD, (FLEX_HOLDER, *columns, [needed for _, needed in wanted]))


async def settle_jobs(transaction: Transaction, settlements: Sequence[Settlement]) -> None:
    """Set finished jobs' holds to what they cost; their charge books what was spent."""
    await _change(
        transaction, [(each.held, each.charge_nanousd - each.held.nanousd) for each in settlements]
    )


async def release_jobs(transaction: Transaction, jobs: Sequence[Released]) -> None:
    """Release the holds of jobs that ended without a charge."""
    await _change(transaction, [(each, -each.nanousd) for each in jobs])


async def _change(transaction: Transaction, changes: Sequence[tuple[Released, int]]) -> None:
    rows = [
        (limit, job.account, job.key, job.workflow, job.session, job.asked_at, change)
        for job, change in changes
        for limit in job.limits
    ]
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        await transaction.execute(_CHANGE, (*columns, FLEX_HOLDER))


def _balances(limits: Sequence[Limit], jobs: Sequence[Released]) -> list[tuple[WindowBalance, int]]:
    """Return the balances that these jobs hold from, and the total of each. Pure."""
    by_id = {limit.id: limit for limit in limits}
    balances: dict[BalanceKey, WindowBalance] = {}
    needed: dict[BalanceKey, int] = {}
    for job in jobs:
        for id in job.limits if job.nanousd else ():
            limit = by_id[id]
            balance = WindowBalance(
                limit, _value(limit, job), window_of(limit.period, job.asked_at)
            )
            balances.setdefault(balance.key, balance)
            needed[balance.key] = needed.get(balance.key, 0) + job.nanousd
    return [(balance, needed[key]) for key, balance in balances.items()]


def _value(limit: Limit, job: Released) -> str:
    assert limit.measure is Measure.NANOUSD, "only money is held for jobs"
    if limit.contract:
        return owned_value(limit, job.account, as_stored(job.session))
    values = {
        Scope.ACCOUNT: "",
        Scope.KEY: job.key,
        Scope.WORKFLOW: job.workflow,
        Scope.SESSION: job.session,
    }
    return as_stored(values[limit.scope])


def _shortage(balance: WindowBalance, needed: int, reading: Reading) -> Shortage | None:
    if not reading.is_binding or needed <= reading.free:
        return None
    is_held = reading.may_come_back(reading.own_spent) >= needed
    return Shortage(balance, needed, max(0, reading.free), reading.amount, is_held)
