"""What is too large for a row goes elsewhere, under a name that tells what it is."""

import asyncio
import hashlib
from collections.abc import Sequence

import pytest

from penstock.errors import StoreUnavailable
from penstock.jobs.large_values import LargeValues
from penstock.records.account import AccountId
from penstock.records.job import JobId
from penstock.serving.settings import ServingSettings

ACCOUNT, JOB = AccountId("acme"), JobId("job")


class Shelf:
    """Objects in memory, one of which may be out of reach."""

    def __init__(self, broken: str = "") -> None:
        self.values: dict[str, bytes] = {}
        self.most_at_once = 0
        self._at_once = 0
        self._broken = broken

    async def put(self, name: str, data: bytes) -> None:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        if name == self._broken:
            raise StoreUnavailable
        self.values[name] = data

    async def get(self, name: str) -> bytes:
        return self.values[name]

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            del self.values[name]


def test_only_what_is_above_the_size_has_a_name() -> None:
    values = LargeValues(Shelf(), ServingSettings(objects_above_bytes=4))
    assert values.name_for(ACCOUNT, JOB, b"four") == ""
    digest = hashlib.sha256(b"five!").hexdigest()
    assert values.name_for(ACCOUNT, JOB, b"five!") == f"acme/job/{digest}"


async def test_values_are_found_wherever_they_are() -> None:
    shelf = Shelf()
    values = LargeValues(shelf, ServingSettings())
    await values.put({"a": b"1", "b": b"2"})
    assert await values.get("b", b"") == b"2"
    assert await values.get("", b"inline") == b"inline"
    await values.delete(["a"])
    await values.delete([])
    assert shelf.values == {"b": b"2"}


async def test_some_are_written_at_a_time() -> None:
    shelf = Shelf()
    values = LargeValues(shelf, ServingSettings(objects_at_once=3))
    await values.put({str(n): b"" for n in range(20)})
    assert (len(shelf.values), shelf.most_at_once) == (20, 3)


async def test_failure_to_write_one_is_a_failure_by_its_own_name() -> None:
    values = LargeValues(Shelf(broken="2"), ServingSettings())
    with pytest.raises(StoreUnavailable):
        await values.put({str(n): b"" for n in range(4)})
