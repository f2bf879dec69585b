"""Brings parts of engines' logs from keepers to operators, through Postgres, encrypted."""

import asyncio
from typing import Final

import msgspec

from penstock.clock import new_id
from penstock.errors import Conflict, NotFound
from penstock.fleet.memory import KeeperMemory
from penstock.records.replica import ReplicaId
from penstock.store.pool import Store
from penstock.store.sealing import Sealing

LOG_BYTES_MAX: Final = 64 * 1024
_WAIT_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.2

_ASK: Final = """
    insert into replica_logs (id, replica, after)
    select %s::uuid, id, %s from replicas where id = %s
"""
_ANSWERED: Final = """
    delete from replica_logs where id = %s::uuid and position is not null
    returning text, position
"""
_DROP: Final = "delete from replica_logs where id = %s::uuid or asked_at < now() - interval '1 min'"
_UNANSWERED: Final = """
    select l.id::text, l.replica, l.after from replica_logs l join replicas r on r.id = l.replica
    where r.keeper = %s and l.position is null order by l.asked_at limit 10
"""
_ANSWER: Final = "update replica_logs set text = %s, position = %s where id = %s::uuid"


class LogPart(msgspec.Struct, frozen=True):
    """A part of an engine's log; `position` is where the next part begins."""

    text: str
    position: int


class ReplicaLogs:
    """The only reader and writer of the table `replica_logs`."""

    def __init__(self, store: Store, sealing: Sealing | None) -> None:
        """Without `sealing`, the text is written in clear."""
        self._store = store
        self._sealing = sealing

    async def read(self, replica: str, after: int | None) -> LogPart:
        """Ask the replica's keeper for its log from `after` on, or for its end; and wait."""
        id = new_id()
        async with self._store.statement() as statement:
            if not await statement.execute(_ASK, (id, after, replica)):
                raise NotFound(f"There is no replica {replica}.")
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while True:
                    async with self._store.statement() as statement:
                        row = await statement.fetch_one(_ANSWERED, (id,))
                    if row is not None:
                        text = await self._unsealed(id, bytes(row[0]))
                        return LogPart(text.decode(errors="replace"), row[1])
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise Conflict(f"The keeper of {replica} did not answer: is its host up?") from None
        finally:
            async with self._store.statement() as statement:
                await statement.execute(_DROP, (id,))

    async def answer(self, keeper: str, memory: KeeperMemory) -> None:
        """Answer what operators asked of a keeper."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_UNANSWERED, (keeper,))
        for id, replica, after in rows:
            text, position = await memory.read_log(ReplicaId(replica), after, LOG_BYTES_MAX)
            sealed = await self._sealed(id, text)
            async with self._store.statement() as statement:
                await statement.execute(_ANSWER, (sealed, position, id))

    async def _sealed(self, id: str, text: bytes) -> bytes:
        if self._sealing is None:
            return text
        return (await self._sealing.of_cell()).seal(_owner(id), text)

    async def _unsealed(self, id: str, text: bytes) -> bytes:
        if self._sealing is None:
            return text
        return (await self._sealing.of_cell()).unseal(_owner(id), text)


def _owner(id: str) -> str:
    return f"replica-log/{id}"
