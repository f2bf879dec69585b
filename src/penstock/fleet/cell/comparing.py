"""Reads what canaries and the replicas that they are compared with did, from the ledger."""

from typing import Final

from penstock.fleet.cell.judge import Side, judge
from penstock.fleet.cell.ledger_period import ledger_period
from penstock.fleet.cell.rollout import Comparison, RolloutStage
from penstock.fleet.cell.view import CellView, DeploymentView
from penstock.store.pool import Transaction

# Attempts that are read at most, the newest: more would say the same.
_ROWS_MAX: Final = 20_000
# Ids begin with their time and are the key of a day's partition, so a period is a range of keys.
_ATTEMPTS: Final = """
    select a.launch = %s, u.outcome in ('failed', 'interrupted'), u.first_token_ms
    from usage_attempts u
    join (
        select r.id, s.launch from replicas r join assignments s on s.id::text = r.assignment
        where s.deployment = %s
    ) a on a.id = u.replica
    where u.day = any(%s::date[]) and u.request >= %s and u.tier = 'now'
    order by u.request desc limit %s
"""


async def read_comparisons(tx: Transaction, cell: CellView, now: float) -> dict[str, Comparison]:
    """Return the comparison of each deployment whose canaries are compared now."""
    return {
        each.name: await _compare(tx, each, now)
        for each in cell.deployments
        if each.stage is RolloutStage.COMPARING
    }


async def _compare(tx: Transaction, deployment: DeploymentView, now: float) -> Comparison:
    since = now - deployment.stage_seconds
    values = (deployment.launch, deployment.name, *ledger_period(since, now), _ROWS_MAX)
    rows = await tx.fetch(_ATTEMPTS, values)
    new = [(failed, ms) for is_new, failed, ms in rows if is_new]
    old = [(failed, ms) for is_new, failed, ms in rows if not is_new]
    verdict, figures = judge(_side(new), _side(old), deployment.spec.rollout.halt)
    return Comparison(verdict, figures)


def _side(rows: list[tuple[bool, float | None]]) -> Side:
    times = sorted(ms for _, ms in rows if ms is not None)
    return Side(len(rows), sum(failed for failed, _ in rows), times)
