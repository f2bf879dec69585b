"""Keeps content of rows, encrypted: in the row itself, or in object storage if it is too large.

An object's name has the account, the owner and the content's digest, so writing it twice equals
writing it once, and a value is stored before any row names it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from penstock.errors import NotFound
from penstock.records.account import AccountId
from penstock.store.sealing import ContentSeal

# Up to here a thread costs more than the work that it takes over.
_INLINE_BYTES_MAX: Final = 256 * 1024


class ObjectStore(Protocol):
    """The port that the store satisfies: whole values by name, and what encrypts short ones."""

    async def put(self, name: str, data: bytes) -> None: ...

    async def get(self, name: str) -> bytes: ...

    async def delete(self, names: Sequence[str]) -> None: ...

    async def seal_of(self, account: AccountId) -> ContentSeal: ...


class KeptSettings(Protocol):
    """Which values are large, and how many of them are written at a time."""

    @property
    def objects_above_bytes(self) -> int: ...

    @property
    def objects_at_once(self) -> int: ...


class KeptValue(msgspec.Struct, frozen=True):
    """How a value is kept: `inline` in a row; or as the object `name`, which has `upload`."""

    inline: bytes = b""
    name: str = ""
    upload: bytes = b""


class KeptValues:
    """Decides how each value is kept, and writes, reads and deletes the large ones."""

    def __init__(self, objects: ObjectStore, settings: KeptSettings) -> None:
        self._objects = objects
        self._above_bytes = settings.objects_above_bytes
        self._at_once = asyncio.Semaphore(settings.objects_at_once)

    async def keep(self, values: Sequence[tuple[AccountId, str, bytes]]) -> list[KeptValue]:
        """Encrypt values, each of an account and an owner in it, and decide where each is kept."""
        accounts = {account for account, _, _ in values}
        seals = {account: await self._objects.seal_of(account) for account in accounts}
        if sum(len(value) for _, _, value in values) <= _INLINE_BYTES_MAX:
            return [self._kept(seals[value[0]], *value) for value in values]
        # Large values are hashed, which takes up to a tenth of a second.
        return await asyncio.to_thread(
            lambda: [self._kept(seals[value[0]], *value) for value in values]
        )

    async def put(self, kept: Iterable[KeptValue]) -> None:
        """Write the large ones, some at a time; raise StoreUnavailable if one write fails."""
        put = self._objects.put
        await self._each([partial(put, each.name, each.upload) for each in kept if each.name])

    async def get(self, account: AccountId, owner: str, name: str, inline: bytes) -> bytes:
        """Return a value from object storage, or the inline one if it has no name."""
        if name:
            if not name.startswith(f"{_bound_to(account, owner)}/"):
                raise NotFound("An object of another owner.")
            return await self._objects.get(name)
        seal = await self._objects.seal_of(account)
        return seal.unseal(_bound_to(account, owner), inline)

    async def digest(self, account: AccountId, value: bytes) -> str:
        """Return a digest that nobody without the account's key can compare a guess with."""
        return (await self._objects.seal_of(account)).digest(value)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete those of these objects that exist, some at a time."""
        await self._each([partial(self._objects.delete, (name,)) for name in names])

    def _kept(self, seal: ContentSeal, account: AccountId, owner: str, value: bytes) -> KeptValue:
        if len(value) <= self._above_bytes:
            return KeptValue(inline=seal.seal(_bound_to(account, owner), value))
        return KeptValue(name=f"{account}/{owner}/{seal.digest(value)}", upload=value)

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


def _bound_to(account: AccountId, owner: str) -> str:
    return f"{account}/{owner}"
