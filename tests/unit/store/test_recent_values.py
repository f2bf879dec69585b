"""What was read lately is not read again, up to a number of bytes."""

import pytest
from tests.unit.store.object_shelf import ACCOUNT, Shelf

from penstock.errors import NotFound
from penstock.records.account import AccountId
from penstock.serving.settings import ServingSettings
from penstock.store import KeptValue, KeptValues, RecentValues


class CountedShelf(Shelf):
    """Counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def get(self, name: str) -> bytes:
        self.reads += 1
        return await super().get(name)


class Cabinet:
    """A shelf of large values, and what remembers some of them."""

    def __init__(self, bytes_max: int) -> None:
        self.shelf = CountedShelf()
        self.values = KeptValues(self.shelf, ServingSettings(objects_above_bytes=4))
        self.recent = RecentValues(self.values, bytes_max)

    async def keep(self, owner: str, value: bytes) -> KeptValue:
        (kept,) = await self.values.keep([(ACCOUNT, owner, value)])
        await self.values.put([kept])
        return kept

    async def read(self, owner: str, kept: KeptValue) -> bytes:
        return await self.recent.get(ACCOUNT, owner, kept.name, kept.inline)


async def test_a_large_value_is_read_once() -> None:
    cabinet = Cabinet(bytes_max=10_000)
    kept = await cabinet.keep("a", b"a large value")
    assert [await cabinet.read("a", kept) for _ in range(3)] == [b"a large value"] * 3
    assert cabinet.shelf.reads == 1


async def test_a_short_value_is_remembered_by_its_own_tag() -> None:
    cabinet = Cabinet(bytes_max=10_000)
    first, second = await cabinet.keep("a", b"one"), await cabinet.keep("a", b"two")
    for _ in range(2):
        assert await cabinet.read("a", first) == b"one"
        assert await cabinet.read("a", second) == b"two"


async def test_another_account_or_owner_gets_nothing_from_memory() -> None:
    cabinet = Cabinet(bytes_max=10_000)
    kept = await cabinet.keep("a", b"a large value")
    await cabinet.read("a", kept)
    for account, owner in ((AccountId("other"), "a"), (ACCOUNT, "b")):
        with pytest.raises(NotFound):
            await cabinet.recent.get(account, owner, kept.name, kept.inline)


async def test_the_value_that_was_read_longest_ago_goes_first() -> None:
    cabinet = Cabinet(bytes_max=3_000)
    kept = {owner: await cabinet.keep(owner, owner.encode() * 1000) for owner in "abc"}
    for owner in "aba":
        await cabinet.read(owner, kept[owner])
    assert cabinet.shelf.reads == 2
    await cabinet.read("c", kept["c"])
    await cabinet.read("a", kept["a"])
    assert cabinet.shelf.reads == 3
    await cabinet.read("b", kept["b"])
    assert cabinet.shelf.reads == 4


async def test_a_value_above_the_limit_is_not_kept() -> None:
    cabinet = Cabinet(bytes_max=0)
    kept = await cabinet.keep("a", b"a large value")
    for _ in range(2):
        assert await cabinet.read("a", kept) == b"a large value"
    assert cabinet.shelf.reads == 2
