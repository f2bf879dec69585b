"""What operators ask of keepers, in Postgres: cordoned hosts, and replicas to drain or restart."""

from enum import StrEnum
from typing import Final

import msgspec

from penstock.errors import Conflict, NotFound
from penstock.fleet.intent import AssignedReplica, KeeperOrders
from penstock.records.model import ModelId, Recipe
from penstock.store.pool import Row, Store

_READ: Final = """
    select is_cordoned, is_draining,
        array(select id from replicas
              where keeper = %s and asked = 'drain' and state <> 'gone'),
        array(select id from replicas
              where keeper = %s and asked = 'restart' and state <> 'gone')
    from hosts where keeper = %s
"""
_ASSIGNED: Final = """
    select a.id::text, l.model, l.recipe::text, (n.spec -> 'accounts')::text
    from assignments a
    join deployments d on d.name = a.deployment
    join deployment_revisions l on l.deployment = a.deployment and l.revision = a.launch
    join deployment_revisions n on n.deployment = a.deployment and n.revision = d.revision
    where a.keeper = %s and a.ending = '' order by a.id
"""
_CORDON: Final = """
    update hosts set is_cordoned = %s, is_draining = %s where name = %s or keeper = %s
"""
_ASK: Final = "update replicas set asked = %s where id = %s and state <> 'gone'"


class ReplicaOrder(StrEnum):
    """What a keeper is to do with a replica."""

    # Let its requests finish, then end it.
    DRAIN = "drain"
    # End it at once; its requests are cut off.
    RESTART = "restart"


class OrderTable:
    """Reads orders for keepers, and writes them for operators."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, keeper: str) -> KeeperOrders:
        """Return a keeper's orders; none while its host is not reported yet."""
        async with self._store.transaction() as tx:
            row = await tx.fetch_one(_READ, (keeper, keeper, keeper))
            if row is None:
                return KeeperOrders()
            assigned = await tx.fetch(_ASSIGNED, (keeper,))
        is_cordoned, is_draining, drains, restarts = row
        return KeeperOrders(
            is_cordoned,
            is_draining,
            frozenset(drains),
            frozenset(restarts),
            tuple(_assigned(each) for each in assigned),
        )

    async def revision(self) -> int:
        """Return a number that grows with every change of deployments and assignments."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one("select revision from deployments_revision")
        assert row is not None, "the migration writes this row"
        return int(row[0])

    async def cordon(self, host: str, *, is_cordoned: bool, is_draining: bool = False) -> None:
        """Set whether a host, by its name or its keeper's id, starts replicas and keeps them."""
        values = (is_cordoned, is_draining, host, host)
        async with self._store.statement() as statement:
            if not await statement.execute(_CORDON, values):
                raise NotFound(f"There is no host {host}. `penstock hosts list` shows them.")

    async def ask(self, replica: str, order: ReplicaOrder) -> None:
        """Ask a replica's keeper to drain or restart it. A restart replaces a drain."""
        async with self._store.statement() as statement:
            if await statement.execute(_ASK, (order.value, replica)):
                return
            row = await statement.fetch_one("select 1 from replicas where id = %s", (replica,))
        if row is None:
            raise NotFound(f"There is no replica {replica}. `penstock replicas list` shows them.")
        raise Conflict(f"Replica {replica} has ended.")


def _assigned(row: Row) -> AssignedReplica:
    id, model, recipe, accounts = row
    return AssignedReplica(
        id,
        ModelId(model),
        msgspec.json.decode(recipe, type=Recipe),
        msgspec.json.decode(accounts, type=tuple[str, ...]),
    )
