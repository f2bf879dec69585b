"""What operators ask of keepers, in Postgres: cordoned hosts, and replicas to drain or restart."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from penstock.errors import Conflict, NotFound
from penstock.fleet.intent import AssignedReplica, KeeperOrders
from penstock.records.model import ModelId, Recipe
from penstock.records.replica import ReplicaId, ReplicaPart
from penstock.store.pool import Row, Store

_READ: Final = """
    select is_cordoned, is_draining,
        array(select id from replicas
              where keeper = %s and asked = 'drain' and state <> 'gone'),
        array(select id from replicas
              where keeper = %s and asked = 'restart' and state <> 'gone'),
        array(select first.id from replicas first
              where first.keeper = %s and first.master_port > 0 and first.state <> 'gone'
                  and exists (select 1 from replicas part where part.leader <> ''
                              and part.leader = first.id and part.state = 'gone'))
    from hosts where keeper = %s
"""
# An assignment with the recipe of its launch, and the accounts of the newest revision.
_LAUNCHES: Final = """
    join deployments d on d.name = a.deployment
    join deployment_revisions l on l.deployment = a.deployment and l.revision = a.launch
    join deployment_revisions n on n.deployment = a.deployment and n.revision = d.revision
"""
_COLUMNS: Final = "l.model, l.recipe::text, (n.spec -> 'accounts')::text"
_ASSIGNED: Final = f"""
    select a.id::text, {_COLUMNS},
        exists (select 1 from assignment_parts p where p.assignment = a.id and not p.has_weights)
    from assignments a {_LAUNCHES}
    where a.keeper = %s and a.ending = '' order by a.id
"""  # noqa: S608 - constants only
# The other parts of replicas over several hosts: without the first one's address until that is
# started, so that weights are fetched meanwhile, and until it has ended. None of them is started
# again: a first part whose others have ended is broken.
_PARTS: Final = f"""
    select distinct on (p.id)
        p.id::text, {_COLUMNS}, p.rank, first.id, first.url, first.master_port
    from assignment_parts p join assignments a on a.id = p.assignment {_LAUNCHES}
    left join replicas first on first.assignment = a.id::text
        and first.master_port > 0 and first.state <> 'gone'
    where p.keeper = %s and (a.ending = '' or first.id is not null) and not exists (
        select 1 from replicas part
        where part.leader <> '' and part.leader = first.id and part.state = 'gone')
    order by p.id, first.id desc
"""  # noqa: S608 - constants only
_HAS_WEIGHTS: Final = """
    update assignment_parts set has_weights = true where id = any(%s::uuid[]) and not has_weights
"""
_CORDON: Final = """
    update hosts set is_cordoned = %s, is_draining = %s where name = %s or keeper = %s
"""
_ASK: Final = """
    update replicas set asked = %s where id = %s and state <> 'gone' and leader = ''
"""


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
            row = await tx.fetch_one(_READ, (keeper, keeper, keeper, keeper))
            if row is None:
                return KeeperOrders()
            assigned = await tx.fetch(_ASSIGNED, (keeper,))
            parts = await tx.fetch(_PARTS, (keeper,))
        is_cordoned, is_draining, drains, restarts, broken = row
        return KeeperOrders(
            is_cordoned,
            is_draining,
            frozenset(drains),
            frozenset(restarts),
            tuple(_assigned(each) for each in (*assigned, *parts)),
            frozenset(broken),
        )

    async def note_weights(self, parts: Collection[str]) -> None:
        """Note that this host has the weights of these parts of replicas."""
        async with self._store.statement() as statement:
            await statement.execute(_HAS_WEIGHTS, (list(parts),))

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
            row = await statement.fetch_one("select leader from replicas where id = %s", (replica,))
        if row is None:
            raise NotFound(f"There is no replica {replica}. `penstock replicas list` shows them.")
        if row[0]:
            raise Conflict(f"{replica} is a part of replica {row[0]}: ask for that one.")
        raise Conflict(f"Replica {replica} has ended.")


def _assigned(row: Row) -> AssignedReplica:
    id, model, recipe, accounts, *rest = row
    own = msgspec.json.decode(recipe, type=Recipe)
    part = _first(own.hosts, *rest) if len(rest) == 1 else _part(own.hosts, rest)
    return AssignedReplica(
        id, ModelId(model), own, msgspec.json.decode(accounts, type=tuple[str, ...]), part
    )


def _first(nodes: int, is_early: bool) -> ReplicaPart:
    return ReplicaPart(nodes, is_early=is_early)


def _part(nodes: int, row: Sequence[Any]) -> ReplicaPart:
    rank, leader, url, port = row
    if leader is None:
        return ReplicaPart(nodes, rank, is_early=True)
    return ReplicaPart(nodes, rank, ReplicaId(leader), urlsplit(url).hostname or "", port)
