"""Keeps payloads and results that are too large for a row in object storage.

A name has the account, the job and the content's hash, so writing it twice equals writing it once,
and a value is stored before any row names it.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from penstock.records.account import AccountId
from penstock.records.job import JobId
from penstock.serving.settings import ServingSettings


class ObjectStore(Protocol):
    """The port that the store satisfies: whole values by name."""

    async def put(self, name: str, data: bytes) -> None: ...

    async def get(self, name: str) -> bytes: ...

    async def delete(self, names: Sequence[str]) -> None: ...


class LargeValues:
    """Decides which values are large, and writes, reads and deletes them."""

    def __init__(self, objects: ObjectStore, settings: ServingSettings) -> None:
        self._objects = objects
        self._above_bytes = settings.objects_above_bytes
        self._at_once = asyncio.Semaphore(settings.objects_at_once)

    def name_for(self, account: AccountId, job: JobId, value: bytes) -> str:
        """Return the object name of a job's value; empty if the value fits into a row."""
        if len(value) <= self._above_bytes:
            return ""
        return f"{account}/{job}/{hashlib.sha256(value).hexdigest()}"

    async def put(self, values: Mapping[str, bytes]) -> None:
        """Write values by name, some at a time; raise StoreUnavailable if one write fails."""
        objects = self._objects
        await self._each([partial(objects.put, name, value) for name, value in values.items()])

    async def get(self, name: str, inline: bytes) -> bytes:
        """Return a value from object storage, or the inline one if it has no name."""
        return await self._objects.get(name) if name else inline

    async def delete(self, names: Sequence[str]) -> None:
        """Delete those of these objects that exist, some at a time."""
        await self._each([partial(self._objects.delete, (name,)) for name in names])

    async def _each(self, calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(self._one(call))
        except ExceptionGroup as failed:
            # Mostly all fail for one reason; callers need the error's own class.
            raise failed.exceptions[0] from failed

    async def _one(self, call: Callable[[], Awaitable[None]]) -> None:
        async with self._at_once:
            await call()
