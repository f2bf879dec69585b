"""What a keeper must know after its own restart, and where it keeps that."""

import asyncio
from typing import Protocol

from penstock.fleet.intent import KeeperOrders
from penstock.fleet.replica_files import Mark, StateFolder
from penstock.records.replica import ReplicaId


class KeeperMemory(Protocol):
    """Outlives the keeper. Only one keeper at a time has it open."""

    async def open(self) -> str:
        """Take it for this keeper, and return the keeper's permanent id.

        Raises Superseded while another keeper has it.
        """
        ...

    async def close(self) -> None: ...

    async def touch(self) -> None:
        """Note that the keeper is alive. Raises Superseded if another keeper has taken over."""
        ...

    async def read_orders(self) -> KeeperOrders: ...

    async def write_orders(self, orders: KeeperOrders) -> None: ...

    async def read_mark(self, replica: ReplicaId) -> Mark | None:
        """Return the replica's state; None if none was noted."""
        ...

    async def write_mark(self, replica: ReplicaId, mark: Mark) -> None: ...

    async def retire(self, replica: ReplicaId) -> None:
        """Let go of what an ended replica has left."""
        ...

    async def last_line(self, replica: ReplicaId) -> str:
        """Return the last line of an engine's log; "" if there is none."""
        ...

    async def read_log(self, replica: ReplicaId, after: int | None, most: int) -> tuple[bytes, int]:
        """Return a part of an engine's log, and where the next part begins."""
        ...


class FolderMemory:
    """A folder of this host, for engines that are its processes."""

    def __init__(self, folder: StateFolder, ended_kept: int) -> None:
        self._folder = folder
        self._ended_kept = ended_kept

    async def open(self) -> str:
        return await asyncio.to_thread(self._folder.open)

    async def close(self) -> None:
        self._folder.close()

    async def touch(self) -> None:
        await asyncio.to_thread(self._folder.touch)

    async def read_orders(self) -> KeeperOrders:
        return await asyncio.to_thread(self._folder.read_orders)

    async def write_orders(self, orders: KeeperOrders) -> None:
        await asyncio.to_thread(self._folder.write_orders, orders)

    async def read_mark(self, replica: ReplicaId) -> Mark | None:
        return await asyncio.to_thread(self._folder.read_mark, replica)

    async def write_mark(self, replica: ReplicaId, mark: Mark) -> None:
        await asyncio.to_thread(self._folder.write_mark, replica, mark)

    async def retire(self, replica: ReplicaId) -> None:
        await asyncio.to_thread(self._folder.retire, replica, kept=self._ended_kept)

    async def last_line(self, replica: ReplicaId) -> str:
        return await asyncio.to_thread(self._folder.last_line, replica)

    async def read_log(self, replica: ReplicaId, after: int | None, most: int) -> tuple[bytes, int]:
        return await asyncio.to_thread(self._folder.read_log, replica, after, most)
