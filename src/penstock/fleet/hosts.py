"""The hosts in Postgres: what each keeper reports of its machine."""

from collections.abc import Sequence

import msgspec

from penstock.records.host import Gpu, HostReport
from penstock.records.model import ModelId
from penstock.store.pool import Row, Store, Transaction

_REPORT = """
    insert into hosts
        (keeper, name, address, labels, gpus, waiting, fetching, versions, pool, obeys)
    values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    on conflict (keeper) do update set
        name = excluded.name, address = excluded.address, labels = excluded.labels,
        gpus = excluded.gpus, waiting = excluded.waiting, fetching = excluded.fetching,
        versions = excluded.versions, pool = excluded.pool,
        obeys = excluded.obeys, heartbeat_at = now()
"""
_FETCHING = """
    update assignments set fetched_at = now()
    where id = any(%s::uuid[])
        or id in (select assignment from assignment_parts where id = any(%s::uuid[]))
"""
_READ = """
    select name, address, labels::text, gpus::text, waiting::text, fetching::text, versions::text,
        extract(epoch from now() - heartbeat_at)::float8, keeper, is_cordoned, is_draining, pool,
        obeys
    from hosts order by name, keeper limit 1000
"""

# A host that takes no more orders may be off. A keeper in an engine's pod ends with its replica.
_SILENCES = """
    select name, min(extract(epoch from now() - heartbeat_at))::float8 from hosts
    where not is_cordoned
        and (obeys = 'deployments' or exists (
            select from replicas r where r.keeper = hosts.keeper and r.state <> 'gone'
        ))
    group by name limit 1000
"""


class SeenHost(msgspec.Struct, frozen=True):
    """A host as its keeper reported it last."""

    report: HostReport
    # How long ago that was.
    silent_seconds: float
    keeper: str = ""
    # Nothing new is started there.
    is_cordoned: bool = False
    # And what runs there is ended, when its requests have finished.
    is_draining: bool = False


class HostReports:
    """Keepers write the table `hosts` by this; operators cordon hosts by OrderTable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def report(
        self, keeper: str, report: HostReport, fetching_assignments: Sequence[str] = ()
    ) -> None:
        """Write a host's row, its heartbeat, and for which assignments it fetches weights now."""
        values = (report.labels, report.gpus, report.waiting, report.fetching, report.versions)
        texts = [msgspec.json.encode(value).decode() for value in values]
        row = (keeper, report.name, report.address, *texts, report.pool, report.obeys)
        async with self._store.statement() as statement:
            await statement.execute(_REPORT, row)
        if fetching_assignments:
            ids = list(fetching_assignments)
            async with self._store.statement() as statement:
                await statement.execute(_FETCHING, (ids, ids))

    async def read(self) -> list[SeenHost]:
        """Return every host, by name."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_READ)
        return [_seen(row) for row in rows]


async def read_silences(transaction: Transaction) -> dict[str, float]:
    """Return for how long no keeper of a host has reported, by the name of the host."""
    return {name: max(0.0, seconds) for name, seconds in await transaction.fetch(_SILENCES)}


def _seen(row: Row) -> SeenHost:
    name, address, labels, gpus, waiting, fetching, versions, *rest, pool, obeys = row
    report = HostReport(
        name=name,
        address=address,
        labels=msgspec.json.decode(labels, type=dict[str, str]),
        gpus=msgspec.json.decode(gpus, type=tuple[Gpu, ...]),
        waiting=msgspec.json.decode(waiting, type=dict[ModelId, str]),
        fetching=msgspec.json.decode(fetching, type=dict[ModelId, str]),
        versions=msgspec.json.decode(versions, type=dict[str, str]),
        pool=pool,
        obeys=obeys,
    )
    return SeenHost(report, *rest)
