"""A pool keeper's memory: the roster in Postgres, and the pods themselves. It needs no volume."""

import asyncio
import re
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from typing import Final

from penstock.errors import ReplicaUnreachable, StoreUnavailable, Superseded
from penstock.fleet.intent import KeeperOrders
from penstock.fleet.providers.kubernetes.cluster import Cluster
from penstock.fleet.providers.kubernetes.pod_manifest import pod_name
from penstock.fleet.replica_files import Mark
from penstock.records.replica import ReplicaId, ReplicaState
from penstock.store import HeldLock
from penstock.store.pool import Store

_LOCK_SECONDS: Final = 1.0
_READ: Final = """
    select state, generation, extract(epoch from changed_at)::float8, served_name, detail
    from replicas where id = %s
"""
_LINE: Final = re.compile(r"(\S+) ?(.*)", re.S)


class PoolMemory:
    """Marks are the roster's rows: a pod whose row is gone is a ghost, which is only ended."""

    _lock: HeldLock | None = None

    def __init__(self, pool: str, store: Store, cluster: Cluster) -> None:
        self._pool = pool
        self._store = store
        self._cluster = cluster
        self._stack = AsyncExitStack()

    async def open(self) -> str:
        try:
            async with asyncio.timeout(_LOCK_SECONDS):
                held = self._store.hold_lock(f"fleet/pool/{self._pool}")
                self._lock = await self._stack.enter_async_context(held)
        except TimeoutError:
            raise Superseded(f"Another keeper has the pool {self._pool}: stop it first.") from None
        self._cluster.is_ours = True
        return f"pool-{self._pool}"

    async def close(self) -> None:
        await self._stack.aclose()

    async def touch(self) -> None:
        """Check that the pool is still ours; without its lock, this keeper touches no pod.

        After a loss of Postgres the lock is taken again. If another keeper has it by then, that one
        has adopted the pods, and this one ends: Superseded.
        """
        if self._lock is not None and await self._lock.still_held():
            return
        self._cluster.is_ours = False
        self._lock = None
        await self._stack.aclose()
        with suppress(StoreUnavailable):
            await self.open()

    async def read_orders(self) -> KeeperOrders:
        """Return none: a keeper that cannot read them does nothing, and its pods go on."""
        return KeeperOrders()

    async def write_orders(self, orders: KeeperOrders) -> None:
        """Postgres has them."""

    async def read_mark(self, replica: ReplicaId) -> Mark | None:
        async with self._store.statement() as statement:
            row = await statement.fetch_one(_READ, (replica,))
        return None if row is None else Mark(ReplicaState(row[0]), *row[1:])

    async def write_mark(self, replica: ReplicaId, mark: Mark) -> None:
        """The roster has it as soon as it is published."""

    async def retire(self, replica: ReplicaId) -> None:
        """Delete the pods. If the cluster does not answer, they are found and deleted later."""
        with suppress(ReplicaUnreachable):
            for pod in self._cluster.pods():
                if pod.replica == replica and not pod.is_ending:
                    await self._cluster.delete(pod.name)

    async def last_line(self, replica: ReplicaId) -> str:
        """Return none: it is asked for every starting replica in every heartbeat.

        That would be hundreds of requests to the API server; `replicas logs` reads whole logs.
        """
        return ""

    async def read_log(self, replica: ReplicaId, after: int | None, most: int) -> tuple[bytes, int]:
        """Return the lines after a time in microseconds, and the time of the last one."""
        text, position = b"", after or 0
        with suppress(ReplicaUnreachable):
            for line in await self._cluster.log_lines(pod_name(replica, 0)):
                at, words = _split(line)
                if after is None or at > after:
                    text += words.encode() + b"\n"
                    position = max(position, at)
        return text[-most:], position


def _split(line: str) -> tuple[int, str]:
    """Return a log line's time in microseconds, and its words."""
    found = _LINE.match(line)
    stamp, words = (found[1], found[2]) if found else ("", line)
    try:
        # Kubernetes writes nanoseconds, which Python does not read.
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", stamp).replace("Z", "+00:00"))
    except ValueError:
        return 0, line
    return int(at.timestamp() * 1_000_000), words
