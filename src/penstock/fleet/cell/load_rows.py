"""Reads what the replicas of scaled deployments do, from what keepers and gateways report."""

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final

import msgspec

from penstock.fleet.cell.autoscale import (
    DeploymentLoad,
    LoadSample,
    is_telling,
    replica_use,
)
from penstock.fleet.cell.ledger_period import ledger_period
from penstock.fleet.cell.view import DeploymentView
from penstock.records.model import ModelId
from penstock.records.replica import LoadFigures
from penstock.routing.router import split_pool
from penstock.store.pool import Transaction

# How long a start takes that was never seen.
_START_SECONDS: Final = 120.0
# Jobs wake a deployment when so many wait, or one must be begun within so many starts.
_MANY_JOBS: Final = 100
_STARTS_AHEAD: Final = 2.0
_LEDGER_ROWS_MAX: Final = 20_000
# Samples are kept at least for as long as a trend looks back.
_KEPT_SECONDS_MIN: Final = 900.0
# Samples that are closer than this are kept as one: control looks more often than load changes.
_SAMPLE_SECONDS: Final = 5.0
_REPLICAS: Final = """
    select a.deployment, r.load::text, r.slots_live, r.state = 'ready'
    from assignments a join replicas r on r.assignment = a.id::text
    where a.deployment = any(%s) and r.state in ('ready', 'draining') limit 10000
"""
_WAITING: Final = """
    select pool, sum(waiting)::int from waiting_requests
    where at > now() - interval '10 seconds' group by pool limit 10000
"""
_JOBS: Final = """
    select w.model,
        exists (select from jobs j where j.model = w.model and j.state = 'queued'
                and j.deadline < now() + make_interval(secs => w.seconds)),
        (select count(*) from (
            select from jobs j
            where j.model = w.model and j.state = 'queued' and not j.is_deferred limit 1000) q)
    from unnest(%s::text[], %s::float8[]) as w (model, seconds)
    where not exists (select from flex_controls c
                      where c.model = w.model and (c.is_paused or c.in_flight_max = 0))
"""
_STARTS: Final = """
    select m.model, (
        select extract(epoch from r.ready_at - r.started_at)::float8 from replicas r
        where r.model = m.model and r.leader = '' and r.ready_at is not null
        order by r.ready_at desc limit 1)
    from unnest(%s::text[]) as m (model)
"""
_FIRST_TOKENS: Final = """
    select percentile_cont(0.95) within group (order by t.ms), count(*) from (
        select u.waited_ms + u.first_token_ms as ms from usage_attempts u
        join replicas r on r.id = u.replica join assignments a on a.id::text = r.assignment
        where a.deployment = %s and u.day = any(%s::date[]) and u.request >= %s
            and u.tier = 'now' and u.first_token_ms is not null
        order by u.request desc limit %s) t
"""


class CellLoads:
    """Remembers samples of the last minutes, and reads new ones."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[LoadSample]] = {}
        self._first_tokens: dict[str, float | None] = {}

    async def read(
        self, tx: Transaction, deployments: Iterable[DeploymentView], now: float
    ) -> dict[str, DeploymentLoad]:
        """Return the loads of the deployments whose count of replicas follows them."""
        scaled = [each for each in deployments if each.spec.is_scaled]
        for gone in self._samples.keys() - {each.name for each in scaled}:
            del self._samples[gone]
        if not scaled:
            return {}
        replicas: dict[str, list[tuple[LoadFigures, int, bool]]] = defaultdict(list)
        for name, figures, slots, is_ready in await tx.fetch(
            _REPLICAS, ([each.name for each in scaled],)
        ):
            load = msgspec.json.decode(figures, type=LoadFigures)
            replicas[name].append((load, slots, is_ready))
        waiting: dict[str, int] = dict(await tx.fetch(_WAITING))
        models = [each.model for each in scaled]
        starts: dict[str, float | None] = dict(await tx.fetch(_STARTS, (models,)))
        loads = {}
        for each in scaled:
            rows = replicas[each.name]
            ready = [(load, slots) for load, slots, is_ready in rows if is_ready]
            sample = LoadSample(
                at=now,
                ready=len(ready),
                work=sum(_use(load, slots) for load, slots in ready),
                waiting=sum(count for pool, count in waiting.items() if _serves(each, pool)),
            )
            # One that starts is given its time to be asked.
            is_awaited = bool(sample.waiting) or not ready
            idle = min((load.idle_seconds for load, _, _ in rows), default=each.idle_seconds)
            loads[each.name] = DeploymentLoad(
                samples=self._remember(each, sample),
                first_token_p95_ms=self._first_tokens.get(each.name),
                start_seconds=starts[each.model] or each.start_seconds or _START_SECONDS,
                last_start_seconds=starts[each.model],
                changed_seconds=each.target_seconds,
                idle_seconds=0.0 if is_awaited else min(idle, each.idle_seconds),
                slots=each.slots,
            )
        return await _with_jobs(tx, scaled, loads)

    async def read_first_tokens(
        self, tx: Transaction, deployments: Iterable[DeploymentView], now: float
    ) -> None:
        """Read how late first tokens were in each deployment's last window, from the ledger."""
        self._first_tokens = {}
        for each in deployments:
            if each.spec.is_scaled and each.target:
                since = now - each.spec.scale.window_seconds
                values = (each.name, *ledger_period(since, now), _LEDGER_ROWS_MAX)
                row = await tx.fetch_one(_FIRST_TOKENS, values)
                if row is not None and is_telling(row[1]):
                    self._first_tokens[each.name] = row[0]

    def _remember(self, deployment: DeploymentView, sample: LoadSample) -> list[LoadSample]:
        """Return the samples of the time that decisions look back on, with this one."""
        samples = self._samples.setdefault(deployment.name, deque())
        if len(samples) > 1 and sample.at - samples[-2].at < _SAMPLE_SECONDS:
            samples.pop()
        samples.append(sample)
        rules = deployment.spec.scale
        seconds = max(_KEPT_SECONDS_MIN, rules.cooldown_seconds + 2 * rules.window_seconds)
        while samples[0].at < sample.at - seconds:
            samples.popleft()
        return list(samples)


def _use(load: LoadFigures, slots: int) -> float:
    return replica_use(
        uncached_rate=load.uncached_rate,
        prefill_rate=load.prefill_rate,
        in_flight=load.running + load.waiting,
        slots=slots,
        kv_use=load.kv_use,
    )


def _serves(deployment: DeploymentView, pool: str) -> bool:
    """Return whether requests that wait at a gateway for a pool may go to this deployment."""
    model, account = split_pool(ModelId(pool))
    accounts = deployment.spec.accounts
    return model == deployment.model and (not accounts or account in accounts)


async def _with_jobs(
    tx: Transaction, scaled: list[DeploymentView], loads: dict[str, DeploymentLoad]
) -> dict[str, DeploymentLoad]:
    """Return the loads, with whether jobs need a deployment that may be at zero."""
    sleepers = [each for each in scaled if each.spec.scale.idle_to_zero_minutes]
    if not sleepers:
        return loads
    seconds = [_STARTS_AHEAD * loads[each.name].start_seconds for each in sleepers]
    rows = await tx.fetch(_JOBS, ([each.model for each in sleepers], seconds))
    due = {model for model, is_near, count in rows if is_near or count >= _MANY_JOBS}
    return loads | {
        each.name: msgspec.structs.replace(loads[each.name], has_due_jobs=True)
        for each in sleepers
        if each.model in due
    }
