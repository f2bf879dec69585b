"""What operators ask of keepers, in Postgres: cordoned hosts, and replicas to drain or restart."""

from enum import StrEnum
from typing import Final

from penstock.errors import Conflict, NotFound
from penstock.fleet.intent import KeeperOrders
from penstock.store.pool import Store

_READ: Final = """
    select is_cordoned, is_draining,
        array(select id from replicas
              where keeper = %s and asked = 'drain' and state <> 'gone'),
        array(select id from replicas
              where keeper = %s and asked = 'restart' and state <> 'gone')
    from hosts where keeper = %s
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
        async with self._store.statement() as statement:
            row = await statement.fetch_one(_READ, (keeper, keeper, keeper))
        if row is None:
            return KeeperOrders()
        is_cordoned, is_draining, drains, restarts = row
        return KeeperOrders(is_cordoned, is_draining, frozenset(drains), frozenset(restarts))

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
