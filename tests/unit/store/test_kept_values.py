"""What is too large for a row goes elsewhere, under a name that tells what it is."""

import pytest
from tests.unit.store.object_shelf import ACCOUNT, KEY, Shelf

from penstock.errors import NotFound, StoreUnavailable
from penstock.records.account import AccountId
from penstock.records.job import JobId
from penstock.serving.settings import ServingSettings
from penstock.store import ContentSeal
from penstock.store.kept_values import KeptValue, KeptValues

JOB = JobId("job")


async def test_only_what_is_above_the_size_is_an_object() -> None:
    values = KeptValues(Shelf(), ServingSettings(objects_above_bytes=4))
    short, large = await values.keep([(ACCOUNT, JOB, b"four"), (ACCOUNT, JOB, b"five!")])
    assert (short.name, short.upload) == ("", b"")
    assert large.name == f"acme/job/{ContentSeal(KEY).digest(b'five!')}"
    assert (large.inline, large.upload) == (b"", b"five!")


async def test_a_short_value_is_encrypted_for_its_job() -> None:
    values = KeptValues(Shelf(), ServingSettings())
    [kept] = await values.keep([(ACCOUNT, JOB, b"a secret")])
    assert b"secret" not in kept.inline
    assert await values.get(ACCOUNT, JOB, "", kept.inline) == b"a secret"
    with pytest.raises(StoreUnavailable):
        await values.get(ACCOUNT, JobId("another"), "", kept.inline)


async def test_a_value_from_before_there_was_a_key_is_found() -> None:
    values = KeptValues(Shelf(), ServingSettings())
    assert await values.get(ACCOUNT, JOB, "", b'{"model": "m"}') == b'{"model": "m"}'
    assert await values.get(ACCOUNT, JOB, "", b"") == b""


async def test_large_values_are_written_read_and_deleted_by_name() -> None:
    shelf = Shelf()
    values = KeptValues(shelf, ServingSettings())
    name = f"{ACCOUNT}/{JOB}/b"
    await values.put([KeptValue(name="a", upload=b"1"), KeptValue(name=name, upload=b"2")])
    assert await values.get(ACCOUNT, JOB, name, b"") == b"2"
    # A row of somebody else that names it does not get it.
    for owner in ((AccountId("other"), JOB), (ACCOUNT, JobId("another"))):
        with pytest.raises(NotFound):
            await values.get(*owner, name, b"")
    await values.delete(["a"])
    await values.delete([])
    assert shelf.values == {name: b"2"}


async def test_some_are_written_at_a_time() -> None:
    shelf = Shelf()
    values = KeptValues(shelf, ServingSettings(objects_at_once=3))
    await values.put([KeptValue(name=str(n)) for n in range(20)])
    assert (len(shelf.values), shelf.most_at_once) == (20, 3)


async def test_failure_to_write_one_is_a_failure_by_its_own_name() -> None:
    values = KeptValues(Shelf(broken="2"), ServingSettings())
    with pytest.raises(StoreUnavailable):
        await values.put([KeptValue(name=str(n)) for n in range(4)])
